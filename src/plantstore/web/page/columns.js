/** The names of columns, by which those of the ids, names and tags are known. */

/** The names of two columns whose texts are the parts of a name. */
const GENUS = "genus gattung genre género rodzaj род";
const EPITHET = "species specificepithet epithet art";

/** The usual names of the columns, in several languages, without blanks and signs; the best first. */
const USUAL = {
  id: "id nr no number nummer num número numer č номер # plantid",
  name:
    "name scientificname botanicalname latinname latin taxonname plantname taxon wissenschaftlichername " +
    `botanischername nomscientifique nombrecientífico plant pflanze ${EPITHET} nom nombre nome ` +
    "nazwa название",
  tag: `tag ${GENUS} group category bed beet location`,
};

/** The names of columns that may have ids, or other texts. */
export const MAYBE_ID = "accession accessionnumber accessionno catalognumber catalogueno".split(
  " ",
);

/** How many of the first rows tell which columns a sheet has. */
export const SAMPLED_ROWS = 20;

/** Return the columns that have usual names. @param {string[]} cells @returns {import("./plan.js").Columns} */
export function recognize(cells) {
  const names = cells.map(fold);
  const find = (/** @type {"id"|"name"|"tag"} */ field) =>
    names.indexOf(USUAL[field].split(" ").find((usual) => names.includes(usual)) ?? "\0");
  return { id: find("id"), name: find("name"), tag: find("tag") };
}

/**
 * Return the column of the genera if that of the names has what follows them, or else -1.
 *
 * @param {import("./plan.js").Preview} preview
 */
export function findGenus({ table, columns, isHeaded, top }) {
  const names = isHeaded ? (table?.rows[top].map(fold) ?? []) : [];
  const isEpithet = EPITHET.split(" ").includes(names[columns?.name ?? -1]);
  return isEpithet ? names.findIndex((name) => GENUS.split(" ").includes(name)) : -1;
}

/** What a row is called that has the totals of the rows above it. */
const TOTAL =
  /^((grand)?totals?|sums?|(gesamt)?summe|(ins)?gesamt|somme|totaux|totale|suma|razem|итого|всего|合計|合计|总计)$/;

/** @param {string} [cell] */
export const isTotal = (cell = "") => TOTAL.test(fold(cell));

/** @param {string} text */
export const fold = (text) =>
  text
    .normalize()
    .toLowerCase()
    .replace(/[\s.:_-]/g, "");
