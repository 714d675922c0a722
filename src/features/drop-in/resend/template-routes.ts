/**
 * @module Templates in Resend's form. What is saved is used by the next email: there are no drafts, so to publish changes
 * nothing. Variables and their fallbacks are those that the texts have.
 */
import type { Database } from 'bun:sqlite'
import * as store from '#features/setup/templates/templates.ts'
import { invalid, notFound } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { isJsonObject, type JsonObject } from '#platform/json-object.ts'
import { pageOfRows } from './list.ts'
import { type Fallback, toSource, toText, withFallbacks } from './placeholders.ts'
import { type Call, createSlug, on, readText, requireText, toDeleted, toReference } from './route.ts'

const READS = 'templates:read'
const WRITES = 'templates:write'

const FIELDS = ['name', 'alias', 'subject', 'html', 'text', 'variables']
const MAX_VARIABLES = 50

export const templateRoutes = [
  on('GET /templates', READS, (call) =>
    pageOfRows(call, 'templates', findTemplate, (...of) => store.listTemplates(...of).templates, toListed),
  ),
  on('POST /templates', WRITES, (call) => {
    const wanted = call.read(FIELDS)
    const name = requireText(wanted, 'name')
    const texts = toTexts(wanted, readFallbacks(wanted['variables'] ?? []))
    const { subject = name, htmlBody = null, textBody = null } = texts
    return create(call, { name, subject, htmlBody, textBody }, readText(wanted, 'alias'))
  }),
  on('GET /templates/:id', READS, (call) => toDetail(requireTemplate(call))),
  on('PATCH /templates/:id', WRITES, async (call) => {
    const wanted = call.read(FIELDS)
    const template = requireTemplate(call)
    const { variables } = wanted
    // New fallbacks change the texts in which the variables are.
    const texts =
      variables == null
        ? toTexts(wanted, readSources(template).fallbacks)
        : toTexts(wanted, readFallbacks(variables), template)
    const change = { name: readText(wanted, 'name'), alias: readText(wanted, 'alias'), ...texts }
    return toReference('template', await store.changeTemplate(call.app, call.actor, formatUuid(template.uuid), change))
  }),
  on('DELETE /templates/:id', WRITES, async (call) => {
    const id = formatUuid(requireTemplate(call).uuid)
    await store.deleteTemplate(call.app, call.actor, id)
    return toDeleted('template', id)
  }),
  on('POST /templates/:id/publish', WRITES, (call) => toReference('template', requireTemplate(call))),
  on('POST /templates/:id/duplicate', WRITES, (call) => {
    const { name, subject, htmlBody, textBody } = requireTemplate(call)
    return create(call, { name: `${name.slice(0, 190)} (copy)`, subject, htmlBody, textBody })
  }),
]

type Content = Omit<Parameters<typeof store.createTemplate>[2], 'alias'>

/** Resend's templates need no alias, ours do. */
async function create({ app, db, actor, accountId }: Call, content: Content, alias?: string) {
  const isTaken = (name: string) => store.hasTemplate(db, accountId, name)
  const template = { alias: alias || createSlug(content.name, 'template', store.MAX_ALIAS_LENGTH, isTaken), ...content }
  return toReference('template', await store.createTemplate(app, actor, template))
}

const findTemplate = (db: Database, accountId: number, id: string): store.Template | undefined =>
  store.findTemplateById(db, accountId, id) ?? store.findTemplateByAlias(db, accountId, id)

function requireTemplate({ db, accountId, id }: Call): store.Template {
  const template = findTemplate(db, accountId, id)
  if (!template) throw notFound('template_not_found', 'Template not found; name it by its id or its alias.')
  return template
}

type Fallbacks = ReadonlyMap<string, Fallback>

function readFallbacks(variables: unknown): Fallbacks {
  const isVariable = (one: unknown): one is JsonObject =>
    isJsonObject(one) &&
    ['string', 'number'].includes(String(one['type'])) &&
    [one['type'], 'undefined'].includes(typeof (one['fallback_value'] ?? undefined))
  if (!Array.isArray(variables) || variables.length > MAX_VARIABLES || !variables.every(isVariable))
    throw invalid(
      'variables',
      `variables must be an array of at most ${MAX_VARIABLES} objects with key, type (string or number) and, of this type, fallback_value.`,
    )
  return new Map(variables.map((one) => [requireText(one, 'key'), one['fallback_value'] as Fallback]))
}

/** What these names are in our syntax, whatever the variables are. */
const RESERVED = /^(?:[Tt]rue|[Ff]alse|[Nn]one|not)$/

/** The texts of a request as sources. @param before those that stay, but for their fallbacks */
function toTexts(wanted: JsonObject, fallbacks: Fallbacks, before?: store.Template) {
  const source = (field: string, old: string | null | undefined) => {
    const text = readText(wanted, field)
    if (text === undefined) return old == null ? undefined : withFallbacks(old, fallbacks)
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
    ...{ object: 'template' as const, ...listed, ...texts, variables },
    ...{ from: null, reply_to: null, has_unpublished_versions: false, current_version_id: String(template.version) },
  }
}
