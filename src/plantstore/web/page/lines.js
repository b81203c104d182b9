/** Lines that are cut out of a file. */

/** A longer line is cut: a row may have a mebibyte. */
const LINE_CHARACTERS_MAX = 500;

/**
 * Return the text of some lines of a file, by their numbers, from 1. LF, CRLF or CR ends a line,
 * as in the service.
 *
 * @param {Blob} file
 * @param {number[]} numbers
 * @returns {Promise<Map<number, string>>} without the lines that cannot be read
 */
export async function readLines(file, numbers) {
  /** @type {Map<number, string>} */
  const lines = new Map();
  const wanted = new Set(numbers);
  const last = numbers.reduce((one, other) => Math.max(one, other), 0);
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  let number = 1;
  let held = ""; // A CR at the end of a piece may be the first half of a CRLF.
  try {
    while (number <= last) {
      const { done, value } = await reader.read();
      if (done) break;
      const piece = held + value;
      held = piece.endsWith("\r") ? "\r" : "";
      for (const [index, part] of piece
        .slice(0, piece.length - held.length)
        .split(/\r\n|\r|\n/)
        .entries()) {
        if (index > 0) number += 1;
        if (wanted.has(number)) lines.set(number, shorten((lines.get(number) ?? "") + part));
      }
    }
  } catch {
    // The file was changed or removed.
  }
  reader.cancel().catch(() => {}); // The rest of the file is not needed.
  return lines;
}

/**
 * Return a copy of the first characters of a text. A slice would keep the whole text in memory.
 *
 * @param {string} text
 */
function shorten(text) {
  const characters = [...text.slice(0, 2 * LINE_CHARACTERS_MAX + 2)];
  if (characters.length <= LINE_CHARACTERS_MAX) return characters.join("");
  return `${characters.slice(0, LINE_CHARACTERS_MAX).join("")}…`;
}
