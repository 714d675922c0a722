/**
 * @module Templates in Resend's form. What is saved is used by the next email: there are no drafts, so to publish changes
 * nothing. Variables and their fallbacks are those that the texts have.
 */
import * as store from '#features/setup/templates/templates.ts'
import { invalid, notFound } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { isJsonObject, type JsonObject } from '#platform/json-object.ts'
import { readText, requireText } from './body.ts'
import { readPage, sourceByRowId } from './list.ts'
import { type Fallback, toSource, toText } from './placeholders.ts'
import { type Call, on, toDeleted, toReference } from './route.ts'

const READS = 'templates:read'
const WRITES = 'templates:write'

const FIELDS = ['name', 'alias', 'subject', 'html', 'text', 'variables']
const MAX_VARIABLES = 50

export const templateRoutes = [
  on('GET /templates', READS, (call) => {
    const {
      app: { db },
      accountId,
      query,
    } = call
    const getRow = (id: string) => requireTemplate({ ...call, id })
    const source = sourceByRowId(
      db,
      ['templates', accountId],
      getRow,
      (window) => store.listTemplates(db, accountId, window).templates,
    )
    return readPage(query, source, toListed)
  }),
  on('POST /templates', WRITES, async (call) => {
    const wanted = call.read(FIELDS)
    const name = requireText(wanted, 'name')
    const { subject = name, htmlBody = null, textBody = null } = toTexts(wanted, new Map())
    const alias = readText(wanted, 'alias') || createAlias(call, name)
    return toReference(
      'template',
      await store.createTemplate(call.app, call.actor, { alias, name, subject, htmlBody, textBody }),
    )
  }),
  on('GET /templates/:id', READS, (call) => toDetail(requireTemplate(call))),
  on('PATCH /templates/:id', WRITES, async (call) => {
    const wanted = call.read(FIELDS)
    const template = requireTemplate(call)
    const { fallbacks, ...before } = readSources(template)
    // New fallbacks change the texts in which the variables are.
    const texts = toTexts(wanted['variables'] === undefined ? wanted : { ...before, ...wanted }, fallbacks)
    const change = { name: readText(wanted, 'name'), alias: readText(wanted, 'alias'), ...texts }
    return toReference('template', await store.changeTemplate(call.app, call.actor, formatUuid(template.uuid), change))
  }),
  on('DELETE /templates/:id', WRITES, async (call) => {
    const id = formatUuid(requireTemplate(call).uuid)
    await store.deleteTemplate(call.app, call.actor, id)
    return toDeleted('template', id)
  }),
  on('POST /templates/:id/publish', WRITES, (call) => toReference('template', requireTemplate(call))),
  on('POST /templates/:id/duplicate', WRITES, async (call) => {
    const template = requireTemplate(call)
    const name = `${template.name.slice(0, 200)} (copy)`
    const copy = { ...template, name, alias: createAlias(call, name) }
    const { alias, subject, htmlBody, textBody } = copy
    return toReference(
      'template',
      await store.createTemplate(call.app, call.actor, { alias, name, subject, htmlBody, textBody }),
    )
  }),
]

function requireTemplate({ app: { db }, accountId, id }: Call): store.Template {
  const template = store.findTemplateById(db, accountId, id) ?? store.findTemplateByAlias(db, accountId, id)
  if (!template) throw notFound('template_not_found', 'store.Template not found; name it by its id or its alias.')
  return template
}

/** Resend's templates need no alias, ours do: it is made of the name, and unique by a part of an id where it must be. */
function createAlias({ app: { db }, accountId }: Call, name: string): string {
  const alias = (name.toLowerCase().match(/[a-z0-9]+/g) ?? ['template']).join('-').slice(0, store.MAX_ALIAS_LENGTH - 9)
  return store.hasTemplate(db, accountId, alias) ? `${alias}-${formatUuid(newUuid()).slice(-8)}` : alias
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

/** The texts of a request as sources; undefined for those that it does not have. */
function toTexts(wanted: JsonObject, before: Fallbacks) {
  const fallbacks = wanted['variables'] == null ? before : readFallbacks(wanted['variables'])
  const source = (field: string) => {
    const text = readText(wanted, field)
    return text && toSource(text, (name, fallback) => [name, fallback ?? fallbacks.get(name)])
  }
  return { subject: source('subject') || undefined, htmlBody: source('html'), textBody: source('text') }
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
  const { created_at, updated_at, ...listed } = toListed(template)
  const variables = [...fallbacks].map(([key, fallback = null]) => ({
    ...{ key, fallback_value: fallback, created_at, updated_at },
    type: typeof fallback === 'number' ? ('number' as const) : ('string' as const),
  }))
  const nowhere = { from: null, reply_to: null, has_unpublished_versions: false }
  const object = 'template' as const
  return {
    object,
    ...listed,
    created_at,
    updated_at,
    ...texts,
    ...nowhere,
    variables,
    current_version_id: String(template.version),
  }
}
