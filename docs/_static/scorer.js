// How the search ranks: guides with the word in a heading first, then explanations; decisions, the changelog and lists of words last. Guides
// to commands and to other wire formats have words of everything, so their headings count once. A word in a heading is worth 15, as in
// Sphinx, and the name of a class or a method 26.
var Scorer = {
  score: ([page, , , , score]) => {
    if (/^(decisions\/|CHANGELOG|CONTRIBUTING|glossary|index|howto\/README)/.test(page)) return score - 20;
    if (/^howto\/(operate|hworker|queue-farm|redis-work-queue|worqr)/.test(page)) return score;
    return score < 15 ? score : score + (page.startsWith("howto/") ? 15 : page.startsWith("explanation/") ? 14 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
