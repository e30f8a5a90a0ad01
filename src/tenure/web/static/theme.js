// Before the first paint: the theme that the user has chosen here.
try {
  const theme = localStorage.getItem("tenure-theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // The browser keeps nothing for this page.
}
