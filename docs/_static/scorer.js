// How the search ranks: guides with the word in a heading first, decisions, the changelog and lists of words last. A word in a heading
// is worth 15, as in Sphinx, and the name of a class or a method 26.
var Scorer = {
  score: ([page, , , , score]) => {
    if (/^(decisions\/|CHANGELOG|CONTRIBUTING|glossary|index|howto\/README)/.test(page)) return score - 10;
    return page.startsWith("howto/") && score >= 15 ? score + 15 : score;
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
