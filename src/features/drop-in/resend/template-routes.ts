/**
 * @module Templates in Resend's form. What is saved is used by the next email: there are no drafts, so to publish changes
 * nothing. Variables and their fallbacks are those that the texts have.
 */
import type { Database } from 'bun:sqlite'
import { type Static, type TNumber, type TString, Type } from '@sinclair/typebox'
import * as store from '#features/setup/templates/templates.ts'
import { invalid, notFound } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { OptionalNullable } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { type Call, Fields, on, takes } from '../dialects/routes.ts'
import { type Fallback, toSource, toText, withFallbacks } from './placeholders.ts'
import { createSlug, MAYBE_TEXT, pageOfRows, shows, TEXT, toReference } from './route.ts'

const READS = 'templates:read'
const WRITES = 'templates:write'

const variableOf = (name: string, value: TString | TNumber) =>
  Fields({ key: TEXT, type: Type.Literal(name), fallback_value: OptionalNullable(value) })
const VARIABLE = Type.Union([variableOf('string', Type.String()), variableOf('number', Type.Number())], {
  errorMessage: 'an object with key, type (string or number) and, of this type, fallback_value',
})
const CHANGES = Fields({
  ...{ name: MAYBE_TEXT, alias: MAYBE_TEXT, subject: MAYBE_TEXT, html: MAYBE_TEXT, text: MAYBE_TEXT },
  variables: OptionalNullable(Type.Array(VARIABLE, { maxItems: 50 })),
})
const NEW = Fields({ ...CHANGES.properties, name: TEXT })

export const templateRoutes = [
  on('GET /templates', READS, (call) =>
    pageOfRows(call, 'templates', getTemplate, (...of) => store.listTemplates(...of).rows, toListed),
  ),
  takes('POST /templates', WRITES, NEW, (call) => {
    const { name, alias, variables } = call.body
    const { subject = name, htmlBody = null, textBody = null } = toTexts(call.body, toFallbacks(variables))
    return create(call, { name, subject, htmlBody, textBody }, alias)
  }),
  on('GET /templates/:id', READS, shows('template', getTemplate, toDetail)),
  takes('PATCH /templates/:id', WRITES, CHANGES, async (call) => {
    const { name, alias, variables } = call.body
    const template = getTemplate(call.db, call.accountId, call.id)
    // New fallbacks change the texts in which the variables are.
    const texts = variables
      ? toTexts(call.body, toFallbacks(variables), template)
      : toTexts(call.body, readSources(template).fallbacks)
    const change = { name: name ?? undefined, alias: alias ?? undefined, ...texts }
    return toReference('template', await store.changeTemplate(call.app, call.actor, formatUuid(template.uuid), change))
  }),
  on('DELETE /templates/:id', WRITES, async ({ app, db, actor, accountId, id }) => {
    const reference = toReference('template', getTemplate(db, accountId, id))
    await store.deleteTemplate(app, actor, reference.id)
    return { ...reference, deleted: true }
  }),
  on('POST /templates/:id/publish', WRITES, ({ db, accountId, id }) =>
    toReference('template', getTemplate(db, accountId, id)),
  ),
  on('POST /templates/:id/duplicate', WRITES, (call) => {
    const { name, subject, htmlBody, textBody } = getTemplate(call.db, call.accountId, call.id)
    return create(call, { name: `${name.slice(0, 190)} (copy)`, subject, htmlBody, textBody })
  }),
]

type Content = Omit<Parameters<typeof store.createTemplate>[2], 'alias'>

/** Resend's templates need no alias, ours do. */
async function create({ app, db, actor, accountId }: Call, content: Content, alias?: string | null) {
  const isTaken = (name: string) => store.hasTemplate(db, accountId, name)
  const template = { alias: alias || createSlug(content.name, 'template', store.MAX_ALIAS_LENGTH, isTaken), ...content }
  return toReference('template', await store.createTemplate(app, actor, template))
}

function getTemplate(db: Database, accountId: number, id: string): store.Template {
  const template = store.findTemplateById(db, accountId, id) ?? store.findTemplateByAlias(db, accountId, id)
  if (!template) throw notFound('template_not_found', 'Template not found; name it by its id or its alias.')
  return template
}

type Changes = Static<typeof CHANGES>
type Fallbacks = ReadonlyMap<string, Fallback>

const toFallbacks = (variables: Changes['variables']): Fallbacks =>
  new Map(variables?.map(({ key, fallback_value: fallback }) => [key, fallback]))

/** What these names are in our syntax, whatever the variables are. */
const RESERVED = /^(?:[Tt]rue|[Ff]alse|[Nn]one|not)$/

/** The texts of a request as sources. @param before those that stay, but for their fallbacks */
function toTexts(wanted: Changes, fallbacks: Fallbacks, before?: store.Template) {
  const source = (field: 'subject' | 'html' | 'text', old: string | null | undefined) => {
    const text = wanted[field]
    if (text == null) return old == null ? undefined : withFallbacks(old, fallbacks)
    return toSource(text, (name, fallback) => {
      if (RESERVED.test(name)) throw invalid(field, `A variable cannot have the name ${name}; rename it.`)
      return [name, fallback ?? fallbacks.get(name)]
    })
  }
  const subject = source('subject', before?.subject) || undefined
  return { subject, htmlBody: source('html', before?.htmlBody), textBody: source('text', before?.textBody) }
}

/** The texts of a template with Resend's placeholders, and its variables with their fallbacks. */
function readSources({ subject, htmlBody, textBody }: store.Template) {
  const fallbacks = new Map<string, Fallback>()
  const read = (source: string) =>
    toText(source, (name, fallback) => {
      fallbacks.set(name, fallback ?? fallbacks.get(name))
      return `{{{${name}}}}`
    })
  const text = textBody === null ? null : read(textBody)
  return { subject: read(subject), html: read(htmlBody ?? ''), text, fallbacks }
}

export const toListed = ({ uuid, name, alias, createdAt, updatedAt }: store.Template | store.ListedTemplate) => ({
  ...{ id: formatUuid(uuid), name, alias, status: 'published' as const },
  created_at: isoTime(createdAt),
  updated_at: isoTime(updatedAt),
  published_at: isoTime(updatedAt),
})

export function toDetail(template: store.Template) {
  const { fallbacks, ...texts } = readSources(template)
  const listed = toListed(template)
  const { created_at, updated_at } = listed
  const variables = [...fallbacks].map(([key, fallback = null]) => ({
    ...{ key, fallback_value: fallback, created_at, updated_at },
    type: typeof fallback === 'number' ? ('number' as const) : ('string' as const),
  }))
  return {
    ...{ ...listed, ...texts, variables },
    ...{ from: null, reply_to: null, has_unpublished_versions: false, current_version_id: String(template.version) },
  }
}
