// CodeMirror with SQL: what the SQL page's editor is made of.
import { autocompletion, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { SQLDialect, sql } from "@codemirror/lang-sql";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState, Prec } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { HighlightStyle, bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { tags } from "@lezer/highlight";

export {
  Compartment, EditorState, EditorView, HighlightStyle, Prec, SQLDialect, autocompletion, bracketMatching, completionKeymap, defaultKeymap,
  history, historyKeymap, keymap, lineNumbers, lintGutter,
  setDiagnostics, sql, syntaxHighlighting, tags,
};
