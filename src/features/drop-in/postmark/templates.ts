/**
 * @module Templates in Postmark's form. Their sources are in our syntax: Mustachio, Postmark's own, is not run, and a
 * template that has it is refused with a hint.
 */

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
import { findMustachio } from './mustachio.ts'
import { type Call, createFieldReader, on, readWindow } from './route.ts'

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
export function listTemplateViews(call: Call) {
  const { app, accountId, read } = call
  const window = readWindow(call, INVALID_QUERY)
  if (read('templatetype')?.toLowerCase() === 'layout' || read('layouttemplate'))
    return { TotalCount: 0, Templates: [] }
  const { rows, total } = listTemplates(app.db, accountId, window)
  app.workBudget.charge(accountId, rows.length)
  return { TotalCount: total, Templates: rows.map(toListedView) }
}

/** The template that the path names by its alias or its number. Throws `template_not_found`. */
function getTemplate({ app: { db }, accountId, id }: Call): Template {
  const named = /^\d{1,15}$/.test(id) ? findTemplateByNumber(db, accountId, Number(id)) : undefined
  const template = findTemplateByAlias(db, accountId, named?.alias ?? id, named?.locale)
  if (!template) throw invalid('TemplateId', `There is no template "${id.slice(0, 100)}".`, 'template_not_found')
  return template
}

const SOURCES = ['Subject', 'HtmlBody', 'TextBody'] as const
type Source = (typeof SOURCES)[number]
type TemplateFields = Partial<Record<Source | 'Name' | 'Alias' | 'TemplateType' | 'LayoutTemplate', string>>
const FORM = 'The body must be a JSON object: a template.'
const readTemplate = createFieldReader(['Name', 'Alias', ...SOURCES, 'TemplateType', 'LayoutTemplate'], FORM)
const readValidation = createFieldReader([...SOURCES, 'TestRenderModel'], FORM)

function requireTexts(fields: Record<string, unknown>): TemplateFields {
  for (const [name, value] of Object.entries(fields))
    if (typeof value !== 'string') throw invalid(name, `${name} must be a string.`)
  return fields as TemplateFields
}

/** The fields of a template to store. Throws 422 for wrong types, for layouts and for Mustachio. */
function readFields({ body, ignored }: Call) {
  const template = requireTexts(readTemplate(body, ignored))
  if (template.TemplateType?.toLowerCase() === 'layout' || template.LayoutTemplate)
    throw invalid(
      'LayoutTemplate',
      'Tassis has no layouts: put the HTML of the layout into each template. `tassis templates import --from postmark` does so.',
    )
  for (const name of SOURCES) {
    const construct = findMustachio(template[name] ?? '')
    if (construct) throw mustachioError(name, construct)
  }
  const { Name: name, Alias, Subject: subject, HtmlBody: htmlBody, TextBody: textBody } = template
  return { alias: Alias || undefined, name, subject, htmlBody, textBody }
}

/** @param construct as in the source, such as `{{#each items}}` */
const mustachioError = (field: string, construct: { readonly text: string; readonly line: number }): AppError =>
  invalid(
    field,
    `${field}, line ${construct.line}: ${construct.text} is Mustachio, which Tassis does not run. Its templates are in Jinja's syntax: {% for item in items %}{{ item.name }}{% endfor %}, {% if paid %}…{% endif %}, {{ html|safe }}; see docs/templates.md. \`tassis templates import --from postmark\` converts your templates.`,
    'template_error',
  )

async function createFromView(call: Call) {
  const { alias, name, subject, htmlBody = null, textBody = null } = readFields(call)
  if (!name || !subject) throw invalid('Name', 'A template needs a Name and a Subject.', 'template_missing')
  // Postmark's templates need no alias, ours do.
  const byName = (name.toLowerCase().match(/[a-z0-9]+/g) ?? []).join('-').slice(0, MAX_ALIAS_LENGTH)
  return toListedView(
    await createTemplate(call.app, call.actor, { alias: alias ?? byName, name, subject, htmlBody, textBody }),
  )
}

export async function validateTemplate({ app, actor, body, ignored }: Call) {
  const { TestRenderModel, ...fields } = readValidation(body, ignored)
  const sources = requireTexts(fields)
  const model = isJsonObject(TestRenderModel) ? TestRenderModel : {}
  const parts = { subject: sources.Subject, html: sources.HtmlBody, text: sources.TextBody }
  const { problems, ...rendered } = await renderDraft(app, actor, parts, model)
  const sectionOf = (name: Source, field: keyof typeof rendered) => {
    const construct = findMustachio(sources[name] ?? '')
    const found = construct
      ? [{ message: mustachioError(name, construct).message, line: construct.line, column: 1 }]
      : problems.filter((problem) => problem.field === field)
    return {
      ContentIsValid: found.length === 0,
      ValidationErrors: found.map(({ message, line, column }) => ({
        ...{ Message: message, Line: line ?? 1, CharacterPosition: column ?? 1 },
      })),
      RenderedContent: rendered[field] ?? '',
    }
  }
  const sections = {
    Subject: sectionOf('Subject', 'subject'),
    HtmlBody: sectionOf('HtmlBody', 'html_body'),
    TextBody: sectionOf('TextBody', 'text_body'),
  }
  const isValid = Object.values(sections).every(({ ContentIsValid }) => ContentIsValid)
  return { AllContentIsValid: isValid, ...sections, SuggestedTemplateModel: model }
}

export const templateRoutes = [
  on('GET /templates', 'templates:read', listTemplateViews),
  on('POST /templates', 'templates:write', createFromView),
  on('POST /templates/validate', 'templates:read', validateTemplate),
  on('GET /templates/:id', 'templates:read', (call) => toTemplateView(getTemplate(call))),
  on('PUT /templates/:id', 'templates:write', async (call) => {
    const id = formatUuid(getTemplate(call).uuid)
    return toListedView(await changeTemplate(call.app, call.actor, id, readFields(call)))
  }),
  on('DELETE /templates/:id', 'templates:write', async (call) => {
    const template = getTemplate(call)
    await deleteTemplate(call.app, call.actor, formatUuid(template.uuid))
    return { ErrorCode: 0, Message: `Template ${toTemplateNumber(template)} removed.` }
  }),
]
