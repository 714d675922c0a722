/** @module The editor itself, loaded when one is first shown. Knows no React. */
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { html } from '@codemirror/lang-html'
import { json } from '@codemirror/lang-json'
import {
  bracketMatching,
  defaultHighlightStyle,
  HighlightStyle,
  indentOnInput,
  syntaxHighlighting,
} from '@codemirror/language'
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from '@codemirror/lint'
import { search, searchKeymap } from '@codemirror/search'
import { Compartment, EditorState, type Extension } from '@codemirror/state'
import {
  Decoration,
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  MatchDecorator,
  ViewPlugin,
} from '@codemirror/view'
import { getNonce } from 'get-nonce'

export type CodeLanguage = 'html' | 'json' | 'text'

export interface CodeProblem {
  /** From 1; undefined: of no single line. */
  readonly line: number | undefined
  readonly message: string
  readonly severity?: 'error' | 'warning'
}

export interface EditorOptions {
  readonly text: string
  readonly language: CodeLanguage
  readonly isReadOnly: boolean
  readonly isDark: boolean
  readonly attributes: Readonly<Record<string, string>>
  onChange(text: string): void
}

export interface Editor {
  /** Replaces the text, unless it is the same. */
  setText(text: string): void
  setProblems(problems: readonly CodeProblem[]): void
  setDark(isDark: boolean): void
  /** Moves the cursor and the focus to a line, from 1. */
  goToLine(line: number): void
  destroy(): void
}

/** Replacing a text by one that is longer than this forgets what could be undone. */
const MAX_UNDOABLE_LENGTH = 100_000

const LANGUAGES: Readonly<Record<CodeLanguage, () => Extension>> = { html: () => html(), json, text: () => [] }

/** The colours that the editor gives to tokens, as those of our styles: readable in light and dark. */
const COLOURS: Readonly<Record<string, string>> = {
  '#404740': 'meta',
  '#708': 'keyword',
  '#219': 'atom',
  '#164': 'literal',
  '#a11': 'string',
  '#e40': 'escape',
  '#00f': 'name',
  '#30a': 'name',
  '#085': 'type',
  '#167': 'type',
  '#256': 'name',
  '#00c': 'name',
  '#940': 'comment',
  '#f00': 'invalid',
}

const highlightStyle = HighlightStyle.define(
  defaultHighlightStyle.specs.map(({ color, ...spec }) => {
    const name = COLOURS[String(color)]
    return name === undefined ? spec : { ...spec, color: `var(--code-${name})` }
  }),
)

/** Marks what a template fills in. */
const templateTags = ViewPlugin.define(
  (view) => {
    const matcher = new MatchDecorator({
      regexp: /\{\{.{0,500}?\}\}|\{%.{0,500}?%\}|\{#.{0,500}?#\}/g,
      decoration: Decoration.mark({ class: 'code-tag' }),
    })
    return {
      marks: matcher.createDeco(view),
      update(update) {
        this.marks = matcher.updateDeco(update, this.marks)
      },
    }
  },
  { decorations: ({ marks }) => marks },
)

/**
 * Replaces a selection itself. A browser would do it with an inline style that keeps the look of the replaced text,
 * which the policy of the page blocks and reports.
 */
const replaceSelection = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { state } = view
    if (event.inputType !== 'insertText' || event.data === null || view.composing) return false
    if (state.readOnly || state.selection.main.empty) return false
    event.preventDefault()
    view.dispatch(state.replaceSelection(event.data), { userEvent: 'input.type', scrollIntoView: true })
    return true
  },
})

/** @param parent element that gets the editor */
export function createEditor(parent: Element, options: EditorOptions): Editor {
  const colours = new Compartment()
  const toColours = (isDark: boolean): Extension => EditorView.darkTheme.of(isDark)
  let isDark = options.isDark
  const createState = (doc: string): EditorState =>
    EditorState.create({
      doc,
      extensions: [
        EditorView.cspNonce.of(getNonce() ?? ''),
        EditorView.contentAttributes.of({ ...options.attributes }),
        EditorView.perLineTextDirection.of(true),
        EditorView.lineWrapping,
        EditorState.readOnly.of(options.isReadOnly),
        colours.of(toColours(isDark)),
        lineNumbers(),
        lintGutter(),
        history(),
        drawSelection(),
        highlightSpecialChars(),
        highlightActiveLine(),
        indentOnInput(),
        bracketMatching(),
        search({ top: true }),
        LANGUAGES[options.language](),
        syntaxHighlighting(highlightStyle),
        ...(options.language === 'json' ? [] : [templateTags]),
        replaceSelection,
        // Tab is not bound, so it leaves the editor.
        keymap.of([...searchKeymap, ...historyKeymap, ...lintKeymap, ...defaultKeymap]),
        EditorView.updateListener.of(({ docChanged, state }) => {
          if (docChanged) options.onChange(state.sliceDoc())
        }),
      ],
    })
  const view = new EditorView({ parent, state: createState(options.text) })
  let problems: readonly CodeProblem[] = []
  const markProblems = () => view.dispatch(setDiagnostics(view.state, toDiagnostics(view.state, problems)))
  return {
    setText(text) {
      if (text === view.state.sliceDoc()) return
      // As a change, all lines of a long text would be drawn once.
      if (text.length > MAX_UNDOABLE_LENGTH) {
        view.setState(createState(text))
        markProblems()
      } else view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } })
    },
    setProblems(next) {
      problems = next
      markProblems()
    },
    setDark(next) {
      isDark = next
      view.dispatch({ effects: colours.reconfigure(toColours(next)) })
    },
    goToLine(line) {
      const { from } = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines))
      view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: 'center' }) })
      view.focus()
    },
    destroy: () => view.destroy(),
  }
}

/** Problems at the words of their lines; one without a line is not marked, and one past the end is at the last line. */
const toDiagnostics = ({ doc }: EditorState, problems: readonly CodeProblem[]): readonly Diagnostic[] =>
  problems.flatMap(({ line: number, message, severity = 'error' }) => {
    if (number === undefined) return []
    const line = doc.line(Math.min(Math.max(number, 1), doc.lines))
    const indent = line.text.length - line.text.trimStart().length
    return [{ from: line.from + (indent < line.length ? indent : 0), to: line.to, severity, message }]
  })
