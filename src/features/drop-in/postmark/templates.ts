/**
 * @module Templates in Postmark's form. Their sources are in our syntax: Mustachio, Postmark's own, is not run, and a
 * template that has it is refused with a hint.
 */

import type { Actor, App } from '#features/core/app/app.ts'
import { renderDraft } from '#features/setup/templates/draft.ts'
import {
  changeTemplate,
  createTemplate,
  deleteTemplate,
  findTemplateByAlias,
  findTemplateByNumber,
  type ListedTemplate,
  listTemplates,
  type Template,
  toTemplateNumber,
} from '#features/setup/templates/templates.ts'
import { type AppError, invalid } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { isJsonObject } from '#platform/json-object.ts'
import { createFieldReader, createQueryReader, type Query, readWindow } from './fields.ts'
import { findMustachio } from './mustachio.ts'

const INVALID_QUERY = 'invalid_template_query'
const MAX_ALIAS_LENGTH = 60

const toListedView = (template: Template | ListedTemplate) => ({
  Active: true as const,
  TemplateId: toTemplateNumber(template),
  Name: template.name,
  Alias: template.alias,
  ...(template.locale && { Locale: template.locale }),
  TemplateType: 'Standard' as const,
  LayoutTemplate: null,
})

export const toTemplateView = (template: Template) => ({
  ...toListedView(template),
  Subject: template.subject,
  HtmlBody: template.htmlBody,
  TextBody: template.textBody,
  AssociatedServerId: template.accountId,
})

/** A page of templates. This service has no layouts, so a list of those is empty. */
export function listTemplateViews(app: App, accountId: number, query: Query) {
  const read = createQueryReader(query)
  const window = readWindow(read, INVALID_QUERY)
  if (read('templatetype')?.toLowerCase() === 'layout' || read('layouttemplate'))
    return { TotalCount: 0, Templates: [] }
  const { templates, total } = listTemplates(app.db, accountId, window)
  app.workBudget.charge(accountId, templates.length)
  return { TotalCount: total, Templates: templates.map(toListedView) }
}

/** The template with an alias, or else with a number. Throws `template_not_found`. */
export function getByIdOrAlias({ db }: App, accountId: number, idOrAlias: string): Template {
  const named = /^\d{1,15}$/.test(idOrAlias) ? findTemplateByNumber(db, accountId, Number(idOrAlias)) : undefined
  const template = findTemplateByAlias(db, accountId, named?.alias ?? idOrAlias, named?.locale)
  if (!template) throw invalid('TemplateId', `There is no template "${idOrAlias.slice(0, 100)}".`, 'template_not_found')
  return template
}

const FIELDS = ['Name', 'Alias', 'Subject', 'HtmlBody', 'TextBody', 'TemplateType', 'LayoutTemplate'] as const
type TemplateFields = Partial<Record<(typeof FIELDS)[number], string>>
const readTemplate = createFieldReader(FIELDS)

/** The fields of a request. Throws 422 for wrong types, for layouts and for Mustachio. */
function readFields(body: unknown, ignored: Set<string>): TemplateFields {
  if (!isJsonObject(body)) throw invalid('body', 'The body must be a JSON object: a template.', 'incompatible_json')
  const fields = readTemplate(body, ignored)
  for (const [name, value] of Object.entries(fields))
    if (typeof value !== 'string') throw invalid(name, `${name} must be a string.`)
  const template = fields as TemplateFields
  if (template.TemplateType?.toLowerCase() === 'layout' || template.LayoutTemplate)
    throw invalid(
      'LayoutTemplate',
      'Tassis has no layouts: put the HTML of the layout into each template. `tassis templates import --from postmark` does so.',
    )
  for (const name of ['Subject', 'HtmlBody', 'TextBody'] as const) {
    const construct = findMustachio(template[name] ?? '')
    if (construct) throw mustachioError(name, construct)
  }
  return template
}

/** @param construct as in the source, such as `{{#each items}}` */
const mustachioError = (field: string, construct: { readonly text: string; readonly line: number }): AppError =>
  invalid(
    field,
    `${field}, line ${construct.line}: ${construct.text} is Mustachio, which Tassis does not run. Its templates are in Jinja's syntax: {% for item in items %}{{ item.name }}{% endfor %}, {% if paid %}…{% endif %}, {{ html|safe }}; see docs/templates.md. \`tassis templates import --from postmark\` converts your templates.`,
    'template_error',
  )

/** Postmark's templates need no alias, ours do: by default it is made of the name. */
function toAlias({ Alias, Name = '' }: TemplateFields): string {
  if (Alias) return Alias
  const words = Name.toLowerCase().match(/[a-z0-9]+/g) ?? []
  return words.join('-').slice(0, MAX_ALIAS_LENGTH)
}

const toTexts = ({ Name, Subject, HtmlBody, TextBody }: TemplateFields) => ({
  name: Name,
  subject: Subject,
  htmlBody: HtmlBody,
  textBody: TextBody,
})

export async function createFromView(app: App, actor: Actor, body: unknown, ignored: Set<string>) {
  const fields = readFields(body, ignored)
  const { name, subject, htmlBody = null, textBody = null } = toTexts(fields)
  if (!name || !subject) throw invalid('Name', 'A template needs a Name and a Subject.', 'template_missing')
  return toListedView(await createTemplate(app, actor, { alias: toAlias(fields), name, subject, htmlBody, textBody }))
}

export async function changeFromView(app: App, actor: Actor, idOrAlias: string, body: unknown, ignored: Set<string>) {
  const template = getByIdOrAlias(app, actor.accountId, idOrAlias)
  const fields = readFields(body, ignored)
  const change = { alias: fields.Alias || undefined, ...toTexts(fields) }
  return toListedView(await changeTemplate(app, actor, formatUuid(template.uuid), change))
}

export async function deleteByIdOrAlias(app: App, actor: Actor, idOrAlias: string) {
  const template = getByIdOrAlias(app, actor.accountId, idOrAlias)
  await deleteTemplate(app, actor, formatUuid(template.uuid))
  return { ErrorCode: 0, Message: `Template ${toTemplateNumber(template)} removed.` }
}

const readValidation = createFieldReader(['Subject', 'HtmlBody', 'TextBody', 'TestRenderModel'])

export async function validateTemplate(app: App, actor: Actor, body: unknown, ignored: Set<string>) {
  if (!isJsonObject(body)) throw invalid('body', 'The body must be a JSON object.', 'incompatible_json')
  const fields = readValidation(body, ignored)
  const text = (name: string): string | undefined => {
    const value = fields[name]
    if (value !== undefined && typeof value !== 'string') throw invalid(name, `${name} must be a string.`)
    return value
  }
  const sources = { subject: text('Subject'), html: text('HtmlBody'), text: text('TextBody') }
  const model = isJsonObject(fields['TestRenderModel']) ? fields['TestRenderModel'] : {}
  const { problems, ...rendered } = await renderDraft(app, actor, sources, model)
  const sectionOf = (part: keyof typeof sources, field: 'subject' | 'html_body' | 'text_body', name: string) => {
    const construct = findMustachio(sources[part] ?? '')
    const found = problems.filter((problem) => problem.field === field)
    const errors = construct
      ? [{ Message: mustachioError(name, construct).message, Line: construct.line, CharacterPosition: 1 }]
      : found.map(({ message, line, column }) => ({
          Message: message,
          Line: line ?? 1,
          CharacterPosition: column ?? 1,
        }))
    return { ContentIsValid: errors.length === 0, ValidationErrors: errors, RenderedContent: rendered[field] ?? '' }
  }
  const sections = {
    Subject: sectionOf('subject', 'subject', 'Subject'),
    HtmlBody: sectionOf('html', 'html_body', 'HtmlBody'),
    TextBody: sectionOf('text', 'text_body', 'TextBody'),
  }
  const isValid = Object.values(sections).every(({ ContentIsValid }) => ContentIsValid)
  return { AllContentIsValid: isValid, ...sections, SuggestedTemplateModel: model }
}
