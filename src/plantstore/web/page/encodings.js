/** The encodings of files that are not in Unicode, as browsers know them (https://encoding.spec.whatwg.org). */

export const ENCODINGS = (
  "windows-1252 windows-1250 windows-1251 windows-1253 windows-1254 windows-1255 windows-1256 " +
  "windows-1257 windows-1258 windows-874 macintosh koi8-r koi8-u ibm866 x-mac-cyrillic " +
  "euc-kr shift_jis euc-jp iso-2022-jp gbk gb18030 big5 iso-8859-2 iso-8859-3 iso-8859-4 iso-8859-5 " +
  "iso-8859-6 iso-8859-7 iso-8859-8 iso-8859-10 iso-8859-13 iso-8859-14 iso-8859-15 iso-8859-16"
).split(" ");

/** What begins other characters than those of ASCII in ISO-2022-JP. */
export const ESCAPE = "\x1b$";

/** What a text has seldom if its encoding is right. */
const STRANGE = /[^\p{L}\p{M}\0-\x7f×–—‘’“”„«»]/gu;

/** How many bytes are looked at, from the first line that is not ASCII. */
const SAMPLED_BYTES = 4000;

const EXAMPLE_CHARACTERS = 40;

/**
 * Return the encodings in which a text may be written, those without strange characters first: each
 * with its name, and an example of the text in it.
 *
 * @param {Uint8Array} bytes
 */
export function listEncodings(bytes) {
  const first = bytes.findIndex((byte) => byte > 0x7f || byte === ESCAPE.charCodeAt(0));
  const start = bytes.lastIndexOf(10, first) + 1;
  const sample = bytes.subarray(start, start + SAMPLED_BYTES);
  const found = ENCODINGS.flatMap((name) => {
    try {
      // The last character may be cut off.
      const text = new TextDecoder(name, { fatal: true }).decode(sample, { stream: true });
      const [example] = /[^,;\t"\n]*[^\0-\x7f,;\t"\n][^,;\t"\n]*/.exec(text) ?? [];
      if (!example) return [];
      const shown = example.trim().slice(0, EXAMPLE_CHARACTERS);
      return [{ option: [name, shown], strange: text.match(STRANGE)?.length ?? 0 }];
    } catch {
      return []; // The text is not written in this one.
    }
  });
  found.sort((one, other) => one.strange - other.strange);
  return found.map(({ option }) => option);
}
