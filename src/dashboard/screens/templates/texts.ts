/** @module The fields of a template while they are edited, and what becomes of them when somebody else saved first. */
import type { RenderTemplateTextResult, Template } from '#client/api.ts'
import type { CodeProblem } from '../../parts/code-editor/editor.ts'

export type RenderProblem = RenderTemplateTextResult['problems'][number]

const FIELD_NAMES = ['alias', 'locale', 'name', 'subject', 'html_body', 'text_body'] as const

/** A part that the template does not have is empty. */
export type TemplateFields = Readonly<Record<(typeof FIELD_NAMES)[number], string>>

const mapFields = (toText: (name: keyof TemplateFields) => string): TemplateFields =>
  Object.fromEntries(FIELD_NAMES.map((name) => [name, toText(name)])) as TemplateFields

export const EMPTY_FIELDS = mapFields(() => '')

export const toFields = (template: Omit<Template, 'id'>): TemplateFields => mapFields((name) => template[name] ?? '')

export const findChanges = (before: TemplateFields, after: TemplateFields): Partial<TemplateFields> =>
  Object.fromEntries(FIELD_NAMES.filter((name) => before[name] !== after[name]).map((name) => [name, after[name]]))

/** The fields with one's own changes, and those of others where one changed nothing. */
export const mergeFields = (base: TemplateFields, mine: TemplateFields, theirs: TemplateFields): TemplateFields => ({
  ...theirs,
  ...findChanges(base, mine),
})

/** A problem for the editor of its field, whose label says the field. */
export const toCodeProblem = ({ line, message }: RenderProblem): CodeProblem => ({
  line: line ?? undefined,
  message: capitalise(message.replace(/^(?:subject|html_body|text_body)(?:, line \d+)?:? /, '')),
})

const capitalise = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

export const EDITOR_TABS = ['html', 'text', 'data'] as const
export type EditorTab = (typeof EDITOR_TABS)[number]
