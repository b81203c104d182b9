/** The encodings of files: in which of them a text that is not Unicode may be written. */

/** What files may be written in, as browsers know it (https://encoding.spec.whatwg.org). */
export const ENCODINGS = Object.entries({
  Unicode: ["utf-8"],
  "Western European": ["windows-1252", "iso-8859-15", "macintosh"],
  "Central European": ["windows-1250", "iso-8859-2", "iso-8859-16"],
  "Baltic, Nordic": ["windows-1257", "iso-8859-4", "iso-8859-10", "iso-8859-13"],
  "Celtic, Maltese": ["iso-8859-14", "iso-8859-3"],
  Cyrillic: ["windows-1251", "koi8-r", "koi8-u", "iso-8859-5", "ibm866", "x-mac-cyrillic"],
  Greek: ["windows-1253", "iso-8859-7"],
  Turkish: ["windows-1254"],
  Hebrew: ["windows-1255", "iso-8859-8"],
  Arabic: ["windows-1256", "iso-8859-6"],
  Vietnamese: ["windows-1258"],
  Thai: ["windows-874"],
  Korean: ["euc-kr"],
  Japanese: ["shift_jis", "euc-jp"],
  Chinese: ["gbk", "gb18030", "big5"],
}).flatMap(([script, names]) => names.map((name) => [name, `${script} (${name})`]));

/** The first and the last byte with which the usual characters begin, in an encoding that has them. */
const USUAL = /** @type {Record<string, [string, number, number]>} */ ({
  "euc-kr": ["euc-kr", 0xb0, 0xc8],
  "euc-jp": ["euc-jp", 0xb0, 0xcf],
  shift_jis: ["euc-jp", 0xb0, 0xcf],
  gbk: ["gbk", 0xb0, 0xd7],
  gb18030: ["gbk", 0xb0, 0xd7],
  big5: ["big5", 0xa4, 0xc6],
});

/** What a text has seldom if its encoding is right; each adds one for each character. */
const STRANGE = [
  /[\x80-\x9f\p{Co}\p{Cn}\uff61-\uff9f]/gu,
  /[^\p{L}\p{M}\p{N}\s\0-\x7f\u3000-\u303f\uff00-\uff60×–—‘’“”„«»…®™°·]|[ªºµƒ]/gu,
  // Letters of two alphabets in a word, an upper-case letter within it, or many with accents
  /\p{Script=Latin}[^\P{L}\p{Script=Latin}]|[^\P{L}\p{Script=Latin}]\p{Script=Latin}/gu,
  /\p{Ll}\p{Lu}/gu,
  /[\u00c0-\u024f]{4}/gu,
];

/** Letters of the east and of the west of Europe, which no language has both. */
const [EAST, WEST] = [/[žšřěůčťďňłąęśźżőű]/i, /[àèìòùêîûãõñåæøðþ]/gi];

/** How many bytes of the lines with other characters than ASCII are looked at. */
const SAMPLED_BYTES = 4000;

const EXAMPLE_CHARACTERS = 40;

/**
 * Return the encodings in which a text may be written, the most likely first, each with its name, a
 * label, and an example of the text in it.
 *
 * @param {Uint8Array} bytes
 * @returns {string[][]}
 */
export function listEncodings(bytes) {
  const sample = sampleLines(bytes);
  const found = ENCODINGS.flatMap(([name, label]) => {
    try {
      const text = new TextDecoder(name, { fatal: true }).decode(sample);
      const [example = ""] = /[^,;\t"\n]*[^\0-\x7f,;\t"\n][^,;\t"\n]*/.exec(text) ?? [];
      const shown = example.trim().slice(0, EXAMPLE_CHARACTERS);
      return [{ option: [name, label, shown], length: text.length, strange: rate(text, name) }];
    } catch {
      return []; // The text is not written in this one.
    }
  });
  found.sort((one, other) => one.strange - other.strange || one.length - other.length);
  return found.map(({ option }) => option);
}

/** Return the first lines that are not ASCII. @param {Uint8Array} bytes */
function sampleLines(bytes) {
  /** @type {number[]} */
  const sample = [];
  for (let at = 0; at < bytes.length && sample.length < SAMPLED_BYTES; ) {
    const end = bytes.indexOf(10, at) + 1 || bytes.length;
    const line = bytes.subarray(at, end);
    if (line.some((byte) => byte > 0x7f)) sample.push(...line.subarray(0, SAMPLED_BYTES));
    at = end;
  }
  return new Uint8Array(sample);
}

/** Return the part of the characters beyond ASCII that are strange. @param {string} text @param {string} encoding */
function rate(text, encoding) {
  const count = (/** @type {RegExp} */ kind) => text.match(kind)?.length ?? 0;
  const usual = listUsual(encoding);
  const characters = text.match(/[\p{Script=Han}\p{Script=Hangul}]/gu) ?? [];
  const rare = characters.filter((character) => !usual.has(character)).length;
  const mixed = EAST.test(text) ? count(WEST) : 0;
  const strange = STRANGE.map(count).reduce((sum, many) => sum + many, rare + mixed);
  return strange / count(/[^\0-\x7f]/gu);
}

/** Return the usual characters of a script that has many. @param {string} encoding */
function listUsual(encoding) {
  const [name, first, last] = USUAL[encoding] ?? ["big5", 1, 0];
  const decoder = new TextDecoder(name);
  const bytes = [];
  for (let lead = first; lead <= last; lead += 1) {
    const start = name === "big5" ? 0x40 : 0xa1;
    for (let trail = start; trail <= 0xfe; trail += 1) bytes.push(lead, trail);
  }
  return new Set(decoder.decode(new Uint8Array(bytes)));
}
