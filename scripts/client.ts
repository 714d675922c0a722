/**
 * @module Generates the typed part of the client library from the description of the routes: `src/client/api.ts` for
 * `/openapi.json`, `src/client/operator-api.ts` for what operators and signed-in people use. `scripts/reference.ts`
 * writes them.
 */
import { makeApiDocs } from './api-docs.ts'

/** A JSON Schema as the description writes it. */
interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly allOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | Schema
  readonly patternProperties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly description?: string | undefined
}

interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required?: boolean
  readonly description?: string
  readonly schema: Schema
}

type Content = Readonly<Record<string, { readonly schema?: Schema }>>

interface Operation {
  readonly operationId: string
  readonly summary?: string
  readonly description?: string
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly required?: boolean; readonly content: Content }
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>
}

export interface Description {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly webhooks?: Readonly<Record<string, { readonly post: Operation }>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

/** Nouns that `operationId` names otherwise than the first segment of the path. */
const NOUNS: Readonly<Record<string, readonly string[]>> = {
  accounts: ['SubAccount'],
  'agent-mailboxes': ['Mailbox'],
  gdpr: ['Person'],
  people: ['Person'],
  inbound: ['InboundEmail'],
}
const RESOURCE_NAMES: Readonly<Record<string, string>> = {
  accounts: 'subAccounts',
  'agent-mailboxes': 'mailboxes',
  inbound: 'inboundEmails',
}
/** Methods that people would look for under another name than `operationId` and path make. */
const METHOD_NAMES: Readonly<Record<string, `${string}.${string}`>> = {
  createContactConfirmation: 'contactLists.resendConfirmation',
  createDomainPublish: 'domains.publish',
  createTeamInvitation: 'team.invite',
  deleteTeamMember: 'team.removeMember',
  getContactListRecipient: 'contactLists.countRecipients',
  getEmailAsCaptured: 'emails.getCaptured',
  getMailboxMessageRaw: 'mailboxes.getRawMessage',
  previewContactImport: 'contactLists.previewImport',
  sendBroadcast: 'broadcasts.send',
  validateEmail: 'emails.validate',
  verifyDomainTracking: 'domains.verifyTrackingDomain',
}

const toCamelCase = (text: string): string => text.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase())
const toPascalCase = (text: string): string => toCamelCase(`-${text}`)
const lowerFirst = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1)

export interface Method {
  readonly resource: string
  readonly name: string
  readonly verb: string
  readonly path: string
  readonly operation: Operation
}

/** Names the methods: `listEmails` at /v1/emails is `emails.list`, `rotateWebhookSecret` is `webhooks.rotateSecret`. */
export function listMethods({ paths }: Description): Method[] {
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([verb, operation]): Method => {
      const segment = path.split('/')[2] ?? ''
      const plural = toPascalCase(segment)
      const singular = plural.replace(/(?<=x|ch|ss)es$|(?<!s|ic)s$/, '')
      const nouns = [...(NOUNS[segment] ?? []).flatMap((noun) => [`${noun}es`, `${noun}s`, noun]), plural, singular]
      const noun = nouns.find((known) => operation.operationId.includes(known)) ?? ''
      const isOfAll = verb === 'delete' && noun !== singular && /s$/.test(noun)
      const named = `${RESOURCE_NAMES[segment] ?? toCamelCase(segment)}.${lowerFirst(operation.operationId.replace(noun, isOfAll ? 'All' : ''))}`
      const [resource = '', name = ''] = (METHOD_NAMES[operation.operationId] ?? named).split('.')
      return { resource, name, verb: verb.toUpperCase(), path, operation }
    }),
  )
}

const JSON_TYPE = 'application/json'

/** What the table of operations says behind the path of a method. */
function listTraits({ verb, path, operation }: Method): string[] {
  const { parameters = [] } = operation
  const success = successOf(operation)
  const hasQuery = parameters.some((parameter) => parameter.in === 'query')
  const isPaged = parameters.some(({ name }) => name === 'cursor') && JSON_TYPE in success
  const isList = isPaged || path === '/v1/events'
  return [
    ...(operation.requestBody ? ['body'] : hasQuery && !isList ? ['query'] : []),
    ...(operation.requestBody && 'text/csv' in operation.requestBody.content ? ['csv'] : []),
    ...(isList ? ['pages'] : []),
    ...(verb !== 'GET' && parameters.some(({ name }) => name.toLowerCase() === 'idempotency-key') ? ['once'] : []),
    ...(Object.keys(success).length > 0 && !(JSON_TYPE in success) ? ['raw'] : []),
  ]
}

const successOf = ({ responses }: Operation): Content =>
  Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1].content ?? {}

/** The table of requests: one line for each resource, with the path that most of its methods begin with. */
const formatTable = (methods: readonly Method[]): string =>
  [...Map.groupBy(methods, ({ resource }) => resource)]
    .map(([resource, own]) => {
      const [base = ''] =
        [...Map.groupBy(own, ({ path }) => path.split('/', 3).join('/'))]
          .toSorted(([, some], [, others]) => others.length - some.length)
          .at(0) ?? []
      return `  ${resource}: '${[base, ...own.map((method) => formatRequest(method, base))].join(',')}',`
    })
    .join('\n')

function formatRequest(method: Method, base: string): string {
  const { name, verb, path } = method
  const isBelow = path === base || path.startsWith(`${base}/`)
  const words = [name, verb === 'GET' ? '' : verb, isBelow ? path.slice(base.length) : path, ...listTraits(method)]
  return words.filter((word) => word !== '').join(' ')
}

/** How types are written. */
interface Style {
  /** Whether descriptions become comments, each on a line of its own, with a member on the next. */
  readonly hasDocs: boolean
}

const toLiteral = (value: unknown): string =>
  typeof value === 'string' ? `'${value.replace(/[\\']/g, '\\$&')}'` : JSON.stringify(value)
const isIdentifier = (name: string): boolean => /^[A-Za-z_$][\w$]*$/.test(name)
const toKey = (name: string): string => (isIdentifier(name) ? name : toLiteral(name))
const toComment = (text: string | undefined, { hasDocs }: Style): string =>
  hasDocs && text ? `/** ${text.replaceAll('*/', '*\\/').replace(/\s+/g, ' ')} */\n` : ''

/** An object type or interface of these members. */
const formatMembers = (members: readonly string[], { hasDocs }: Style): string =>
  hasDocs ? `{\n${members.join('\n')}\n}` : `{ ${members.join('; ')} }`

/** TypeScript for a schema. @param input whether the caller writes it, so that `undefined` counts as missing */
function toType(schema: Schema | undefined, style: Style, input: boolean): string {
  if (!schema) return 'unknown'
  const { $ref, anyOf, oneOf, allOf, enum: values, type } = schema
  if ($ref) return $ref.slice($ref.lastIndexOf('/') + 1)
  if ('const' in schema) return toLiteral(schema.const)
  if (values) return values.map(toLiteral).join(' | ')
  const alternatives = anyOf ?? oneOf
  if (alternatives)
    return joinTypes(
      alternatives.map((one) => toType(one, style, input)),
      ' | ',
    )
  if (allOf)
    return joinTypes(
      allOf.map((one) => toType(one, style, input)),
      ' & ',
    )
  if (typeof type === 'object')
    return joinTypes(
      type.map((one) => toType({ ...schema, type: one }, style, input)),
      ' | ',
    )
  if (type === 'array') return `readonly ${wrap(toType(schema.items, style, input))}[]`
  if (type === 'integer' || type === 'number') return 'number'
  if (type === 'string' || type === 'boolean' || type === 'null') return type
  if (type !== 'object' && !schema.properties) return 'unknown'
  return toObjectType(schema, style, input)
}

function toObjectType(schema: Schema, style: Style, input: boolean): string {
  const { properties = {}, required = [], additionalProperties: additional, patternProperties } = schema
  const fields = Object.entries(properties).map(([name, field]) => {
    const isRequired = required.includes(name)
    const type = toType(field, style, input)
    return `${toComment(field.description, style)}readonly ${toKey(name)}${isRequired ? '' : '?'}: ${type}${isRequired || !input || type === 'unknown' ? '' : ' | undefined'}`
  })
  const values = Object.values(patternProperties ?? {})[0] ?? additional
  if (fields.length > 0) return formatMembers(fields, style)
  if (values === false) return 'Readonly<Record<string, never>>'
  return `Readonly<Record<string, ${typeof values === 'object' ? toType(values, style, input) : 'unknown'}>>`
}

const wrap = (type: string): string =>
  /[|&]| readonly |^readonly /.test(type) && !type.startsWith('{') ? `(${type})` : type
const joinTypes = (types: readonly string[], separator: string): string =>
  [...new Set(types)].map((type) => (separator === ' & ' ? wrap(type) : type)).join(separator)

/** Names of the schemas that bodies of requests use, also through others. */
function findInputs(methods: readonly Method[], schemas: Readonly<Record<string, Schema>>): ReadonlySet<string> {
  const found = new Set<string>()
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    for (const [key, inner] of Object.entries(value)) {
      if (key !== '$ref' || typeof inner !== 'string') {
        visit(inner)
        continue
      }
      const name = inner.slice(inner.lastIndexOf('/') + 1)
      if (found.has(name)) continue
      found.add(name)
      visit(schemas[name])
    }
  }
  for (const { operation } of methods) visit(operation.requestBody)
  return found
}

/** The type of all that webhooks post in our own format, whose payloads name their `event`. */
function formatWebhookEvent({ webhooks = {}, components }: Description, style: Style): string[] {
  const payloads = Object.values(webhooks)
    .map(({ post }) => toType(post.requestBody?.content[JSON_TYPE]?.schema, style, false))
    .filter((name) => components.schemas[name]?.properties?.['event'])
  const comment = toComment('What webhooks post: `event` tells them apart.', style)
  return payloads.length > 0 ? [`${comment}export type WebhookEvent = ${payloads.join(' | ')}`] : []
}

/** The signature of a method. Parts of the path come first, then the body or the query. */
function formatMethod(method: Method, style: Style): string {
  const { path, operation, name } = method
  const { parameters = [], requestBody } = operation
  const traits = new Set(listTraits(method))
  const ids = [...path.matchAll(/\{(\w+)\}/g)].map(
    ([, id = '']) => `${lowerFirst(toCamelCase(id.replaceAll('_', '-')))}: string`,
  )
  const query = parameters.filter((parameter) => parameter.in === 'query')
  const queryType = toObjectType(
    {
      properties: Object.fromEntries(
        query.map(({ name: key, schema, description }) => [key, { description, ...schema }]),
      ),
      required: query.filter(({ required }) => required).map(({ name: key }) => key),
    },
    style,
    true,
  )
  const isQueryRequired = query.some(({ required }) => required)
  const [contentType, content] = Object.entries(requestBody?.content ?? {})[0] ?? []
  const bodyType =
    contentType === undefined || contentType === JSON_TYPE ? toType(content?.schema, style, true) : 'RawBody'
  const hasQuery = traits.has('query') || traits.has('pages')
  const input = traits.has('body')
    ? [`body${requestBody?.required === false ? '?' : ''}: ${bodyType}`]
    : hasQuery
      ? [`query${isQueryRequired ? '' : '?'}: ${queryType}`]
      : []
  const options =
    traits.has('body') && query.length > 0 ? `RequestOptions & { readonly query?: ${queryType} }` : 'RequestOptions'
  return `${toComment(`${operation.summary}. ${operation.description ?? ''}`.trim(), style)}${name}(${[...ids, ...input, `options?: ${options}`].join(', ')}): ${formatResult(operation, traits, style)}`
}

function formatResult(operation: Operation, traits: ReadonlySet<string>, style: Style): string {
  if (traits.has('raw')) return 'Promise<Response>'
  const schema = successOf(operation)[JSON_TYPE]?.schema
  if (!schema) return 'Promise<void>'
  const type = toType(schema, style, false)
  return traits.has('pages') ? `Pages<${type}>` : `Promise<${type}>`
}

const HEADER = `/** @module Written by \`bun scripts/reference.ts\` from the routes; do not edit by hand. */`

/**
 * The file of a description: its schemas, the methods of its resources, and the table of their requests.
 * @param base schemas that another file has, with its name
 */
export function formatApi(
  description: Description,
  {
    name,
    base,
    ...style
  }: Style & { readonly name: string; readonly base?: { readonly file: string; readonly description: Description } },
): string {
  const methods = listMethods(description)
  const { schemas } = description.components
  const known = base?.description.components.schemas ?? {}
  const inputs = findInputs(methods, schemas)
  const own = Object.entries(schemas).filter(
    ([schemaName, schema]) => JSON.stringify(known[schemaName]) !== JSON.stringify(schema),
  )
  const clash = own.find(([schemaName]) => schemaName in known)
  if (clash) throw new Error(`${clash[0]} differs between both descriptions: give one of them another name`)
  const text = [
    ...own.map(
      ([schemaName, schema]) =>
        `${toComment(schema.description, style)}export type ${schemaName} = ${toType(schema, style, inputs.has(schemaName))}`,
    ),
    ...formatWebhookEvent(description, style),
    '',
    `export interface ${name} {`,
    ...[...Map.groupBy(methods, ({ resource }) => resource)].map(
      ([resource, ofResource]) =>
        `  readonly ${resource}: ${formatMembers(
          ofResource.map((method) => formatMethod(method, style)),
          style,
        )}`,
    ),
    '}',
    '',
    '/** @internal For each resource its path and its methods: name, verb (GET), path below and traits. `body`, `query` or the query of `pages` follows the ids; `csv` is not JSON; `once` takes an idempotency key; `raw` has no JSON. */',
    `export const ${name === 'Api' ? 'API' : 'OPERATOR_API'} = {`,
    formatTable(methods),
    '} as const',
  ].join('\n')
  const shared = Object.keys(known).filter(
    (schemaName) => schemaName in schemas && new RegExp(`\\b${schemaName}\\b`).test(text),
  )
  const imports = [
    `import type { Pages, ${/\bRawBody\b/.test(text) ? 'RawBody, ' : ''}RequestOptions } from './client.ts'`,
    ...(base && shared.length > 0 ? [`import type { ${shared.join(', ')} } from '${base.file}'`] : []),
  ]
  return `${[HEADER, ...imports, '', text].join('\n')}\n`
}

/** Both descriptions of the API. */
export async function readDescriptions(): Promise<{ readonly api: Description; readonly operators: Description }> {
  const files = new Map((await makeApiDocs()).map(({ name, content }) => [name, content]))
  const read = (name: string): Description => JSON.parse(String(files.get(name)))
  return { api: read('openapi.json'), operators: read('openapi-operator.json') }
}

/** The generated files of src/client, by their names. */
export async function generateClient(style: Style = { hasDocs: false }): Promise<Record<string, string>> {
  const { api, operators } = await readDescriptions()
  return {
    'api.ts': formatApi(api, { ...style, name: 'Api' }),
    'operator-api.ts': formatApi(operators, {
      ...style,
      name: 'OperatorApi',
      base: { file: './api.ts', description: api },
    }),
  }
}
