/** The import on the page: files and rows are taken, by a dialog, a drop or a paste, and previewed. */

import { ask, DISCARD, Frame, isTyped, open } from "./dialogs.js";
import { isTextField, say } from "./elements.js";
import { html } from "./html.js";
import { may, state, update } from "./state.js";

/** @param {On<HTMLInputElement>} event */
export function chooseFile({ currentTarget }) {
  take(currentTarget.files);
  currentTarget.value = ""; // The same file may be chosen again.
}

/** Take what is dropped on the page, or pasted outside of text fields. */
export function watchFiles() {
  const takesFiles = () =>
    state.isSignedIn && may("plants:create") && (!state.dialog || state.dialog.takesFiles);
  document.ondragover = document.ondrop = (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault(); // otherwise the browser would open the file
    update({ isDropping: event.type === "dragover" && takesFiles() });
    if (event.type === "dragover") return;
    if (takesFiles()) take(event.dataTransfer.files);
    else if (!state.dialog) say("You cannot import plants here");
  };
  document.ondragleave = () => update({ isDropping: false });
  document.onpaste = (event) => {
    const files = event.clipboardData?.files ?? [];
    const text = event.clipboardData?.getData("text/plain") ?? "";
    // A field takes one line. Several lines are rows of a table, or of a list.
    const isOfField =
      isTextField(/** @type {Element} */ (event.target)) && !/[\r\n]/.test(text.trim());
    if (!takesFiles() || (files.length === 0 && (isOfField || !text.trim()))) return;
    event.preventDefault();
    if (files.length > 0) take(files);
    else takeRows(text);
  };
}

/** Show the preview of a file. @param {Iterable<File>|null} files */
function take(files) {
  const [file, other] = files ?? []; // The list is empty soon.
  if (other) say("Import one file at a time");
  else if (file) show(file);
}

/** Show the preview of rows that were copied. @param {string} text */
function takeRows(text) {
  show(new File([text], "pasted rows"), true);
}

/** @param {File} file */
async function show(file, isPasted = false) {
  const { dialog } = state;
  if (isTyped() && (await ask(DISCARD)) !== "yes") return;
  import("./preview.js").then(
    ({ openPreview }) => state.dialog === dialog && openPreview(file, isPasted),
    () => say("It cannot be loaded"),
  );
}

/** Ask for a file, or for rows. */
export function chooseImport() {
  const dialog = { View: ImportView, title: "Import plants", content: {}, act: async () => {} };
  open({ ...dialog, isDisposable: true, takesFiles: true });
}

function ImportView() {
  const type = (/** @type {On<HTMLTextAreaElement>} */ { currentTarget: { value } }) =>
    takeRows(value);
  return html`
    <${Frame} id="choosing" fields=${["rows"]} buttons=${[]}>
      <p>
        <label class="button primary">
          Choose a file
          <input id="file" type="file" accept=".csv,.tsv,.txt,.xlsx,.xls,.ods,text/csv" onchange=${chooseFile} />
        </label>
      </p>
      <p class="hint">
        A CSV file or a workbook. You can also drop it anywhere on the page.
      </p>
      <label for="pasted">Or paste rows of a spreadsheet</label>
      <textarea id="pasted" rows="4" dir="auto" spellcheck=${false} autofocus oninput=${type} />
    <//>
  `;
}
