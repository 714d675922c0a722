import { afterAll, beforeAll, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { fetchDescription, resolveSchemas, SPEC_PATHS } from './api-description.ts'
import { findProblem, type JsonSchema } from './json-schema.ts'
import {
  type ContractApi,
  createContractApi,
  PUBLIC_ROUTES,
  ROUTES,
  routeName,
  SESSION_ROUTES,
  unknownId,
} from './routes.ts'

interface Schema {
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly additionalProperties?: boolean | Schema
  readonly enum?: readonly unknown[]
  readonly examples?: readonly unknown[]
  readonly $ref?: string
}
interface Content {
  readonly content?: Readonly<Record<string, { readonly schema: Schema; readonly example?: unknown }>>
  readonly headers?: Readonly<Record<string, object>>
}
interface Parameter {
  readonly name: string
  readonly in: string
  readonly required: boolean
  readonly description?: string
  readonly schema: Schema
}
interface Operation {
  readonly operationId: string
  readonly summary?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly security?: readonly object[]
  readonly parameters: readonly Parameter[]
  readonly requestBody?: Content
  readonly responses: Readonly<Record<string, Content & { readonly description?: string; readonly $ref?: string }>>
}
interface Description {
  readonly openapi: string
  readonly info: { readonly title: string; readonly version: string }
  readonly tags: readonly { readonly name: string; readonly description?: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly webhooks: Readonly<Record<string, { readonly post: Operation }>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>
    readonly responses: Readonly<Record<string, Content>>
  }
}

let service: ContractApi
/** As it is served. */
let served: Description
/** With shared schemas in the place of the references to them. */
let description: Description
/** Routes of the table in routes.ts. */
let operations: [string, Operation][]
/** Public routes, and routes for signed-in users. */
let others: [string, Operation][]
beforeAll(async () => {
  service = await createContractApi()
  served = await fetchDescription<Description>(service.url)
  const { paths, webhooks } = served
  description = { ...served, ...resolveSchemas({ paths, webhooks }, served) }
  const all = Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, Operation] => [
      `${method.toUpperCase()} ${path}`,
      operation,
    ]),
  )
  const known = new Set(ROUTES.map(routeName))
  operations = all.filter(([name]) => known.has(name))
  others = all.filter(([name]) => !known.has(name))
})
afterAll(() => service[Symbol.asyncDispose]())

/** Yields a schema and all schemas inside it, each with the path of its field. */
function* schemasIn(schema: Schema, path: string): Generator<[string, Schema]> {
  yield [path, schema]
  for (const [name, property] of Object.entries(schema.properties ?? {})) yield* schemasIn(property, `${path}.${name}`)
  if (schema.items) yield* schemasIn(schema.items, `${path}[]`)
  for (const variant of schema.anyOf ?? []) yield* schemasIn(variant, path)
  if (typeof schema.additionalProperties === 'object') yield* schemasIn(schema.additionalProperties, `${path}.*`)
}

/** Paths of the fields without a description, at any depth. */
const undescribed = (schema: Schema, path: string): string[] => {
  const fields = [...schemasIn(schema, path)].flatMap(([parent, { properties }]) =>
    Object.entries(properties ?? {}).map(([name, field]) => ({ path: `${parent}.${name}`, field })),
  )
  return fields.filter(({ field }) => !field.description?.trim()).map((field) => field.path)
}

const jsonSchemas = (parts: readonly (readonly [string, Content | undefined])[]): [string, Schema][] =>
  parts.flatMap(([name, part]) => {
    const schema = part?.content?.['application/json']?.schema
    return schema ? [[name, schema] as [string, Schema]] : []
  })

// Proves: http-1, http-18
test('the description is OpenAPI 3.1 of version 1.0.0 and has every route', () => {
  expect([description.openapi, description.info.version]).toEqual(['3.1.0', '1.0.0'])
  expect(operations.map(([name]) => name).sort()).toEqual(ROUTES.map(routeName).sort())
  const strangers = PUBLIC_ROUTES.filter((name) => / \/v1\//.test(name))
  expect(others.map(([name]) => name).sort()).toEqual([...SESSION_ROUTES, ...strangers].sort())
})

test('routes without a key and routes for signed-in users state their security, and describe every field', () => {
  for (const [name, { summary, security, responses, requestBody }] of others) {
    const isForUsers = SESSION_ROUTES.includes(name)
    expect([name, security]).toEqual([name, isForUsers ? [{ session: [] }] : []])
    expect([name, summary]).toEqual([name, expect.stringMatching(/\w/)])
    if (isForUsers) expect([name, Object.keys(responses)]).toEqual([name, expect.arrayContaining(['401', '403'])])
    const successes = Object.entries(responses).filter(([status]) => /^2/.test(status))
    expect([name, successes.length]).toEqual([name, 1])
    const schemas = jsonSchemas([[`${name} body`, requestBody], ...successes])
    const missing = schemas.flatMap(([part, schema]) => undescribed(schema, part))
    expect(missing.filter((path) => !/\.(data|pagination)$/.test(path))).toEqual([])
  }
})

test('server-only annotations are not published: the scope is the only keyword of our own', () => {
  const own = [...operations, ...others].flatMap(([, operation]) =>
    Object.keys(operation).filter((word) => word.startsWith('x-')),
  )
  expect([...new Set(own)]).toEqual(['x-required-scope'])
})

test('every operation has a summary, a tag, a unique id, its scope, and all the parameters of its path', () => {
  const ids = operations.map(([, { operationId }]) => operationId)
  expect(new Set(ids).size).toBe(operations.length)
  for (const [name, operation] of operations) {
    const route = ROUTES.find((candidate) => routeName(candidate) === name)
    expect([name, operation.summary?.trim(), operation.tags?.length]).toEqual([name, expect.stringMatching(/\w/), 1])
    for (const scope of [route?.scope, route?.alsoScope ?? route?.scope])
      expect([name, operation.description]).toEqual([name, expect.stringContaining(`\`${scope}\``)])
    expect([name, operation.security]).toEqual([name, [{ bearer: [] }, { serviceApiKey: [] }, { session: [] }]])
    const inPath = operation.parameters.filter((parameter) => parameter.in === 'path')
    expect([name, inPath.map((parameter) => `{${parameter.name}}`)]).toEqual([name, name.match(/\{\w+\}/g) ?? []])
    expect(inPath.every(({ required }) => required)).toBe(true)
    for (const parameter of operation.parameters)
      expect([name, parameter.name, parameter.description]).toEqual([name, parameter.name, expect.stringMatching(/\w/)])
  }
})

// Proves: http-18, list-23
test('every operation describes its success, its errors and, if there is one, its body', () => {
  for (const [name, { responses, requestBody }] of operations) {
    const route = ROUTES.find((candidate) => routeName(candidate) === name)
    expect([name, Object.keys(responses).filter((status) => /^2/.test(status))]).toEqual([name, [`${route?.status}`]])
    const errors = ['401', '403', ...(route?.resource ? ['404'] : []), ...(route?.body ? ['422'] : []), 'default']
    expect([name, Object.keys(responses)]).toEqual([name, expect.arrayContaining(errors)])
    expect([name, requestBody !== undefined]).toEqual([
      name,
      route?.body !== undefined || typeof route?.csv === 'function',
    ])
    const success = responses[`${route?.status}`]?.content?.['application/json']?.schema
    const keys = Object.keys(success?.properties ?? {}).sort()
    const optional = keys.filter((key) => !success?.required?.includes(key))
    const shape = route?.shape ?? 'none'
    const expected = { one: ['data'], list: ['data', 'pagination'], none: [] }
    expect([name, keys.filter((key) => !optional.includes(key))]).toEqual([
      name,
      typeof shape === 'string' ? expected[shape] : [...shape],
    ])
  }
})

test('the description of inbound mail states when it is rejected, what its files are, and which values each field has', () => {
  const own = Object.fromEntries(
    operations.flatMap(([name, { responses }]) => {
      const conflicts = ['408', '409'].filter((status) => responses[status]?.description)
      return /inbound|agent-mailboxes/.test(name) && conflicts.length > 0 ? [[name, conflicts]] : []
    }),
  )
  expect(own).toEqual({
    'POST /v1/agent-mailboxes': ['409'],
    'GET /v1/agent-mailboxes/{id}/messages/next': ['408'],
    'POST /v1/agent-mailboxes/{id}/messages/{mid}/ack': ['409'],
    'POST /v1/agent-mailboxes/{id}/messages/{mid}/nack': ['409'],
    'POST /v1/inbound-routes': ['409'],
    'PUT /v1/inbound-routes/{id}': ['409'],
    'POST /v1/inbound-routes/{id}/deliveries/{delivery_id}/replay': ['409'],
    'POST /v1/inbound-routes/{id}/test': ['409'],
    'POST /v1/inbound-routes/{id}/replay': ['409'],
    'POST /v1/inbound-routes/{id}/replay/count': ['409'],
  })
  const types = (path: string) =>
    Object.keys(description.paths[path]?.['get']?.responses['200']?.content ?? {}).join(', ')
  expect({
    raw: types('/v1/inbound/{id}/raw'),
    attachment: types('/v1/inbound/{id}/attachments/{n}'),
    ofMailbox: types('/v1/agent-mailboxes/{id}/messages/{mid}/attachments/{n}'),
  }).toEqual({ raw: 'message/rfc822', attachment: '*/*', ofMailbox: '*/*' })
  const words = (path: string, field: string) => {
    const success = description.paths[path]?.['get']?.responses['200']?.content?.['application/json']?.schema
    return success?.properties?.['data']?.items?.properties?.[field]?.enum
  }
  expect([
    words('/v1/inbound', 'status'),
    words('/v1/inbound-routes', 'match_type'),
    words('/v1/agent-mailboxes/{id}/messages', 'direction'),
  ]).toEqual([
    ['received', 'delivered', 'failed', 'no_route'],
    ['exact', 'prefix', 'catch_all'],
    ['received', 'sent'],
  ])
})

/** Everything with a body, in operations, webhooks and errors. */
const bodies = (): [string, Content][] => [
  ...[...operations, ...others, ...webhooks()].flatMap(([name, { requestBody, responses }]): [string, Content][] => [
    [`${name} body`, requestBody ?? {}],
    ...Object.entries(responses).map(([status, response]): [string, Content] => [`${name} ${status}`, response]),
  ]),
  ...Object.entries(resolveSchemas(served.components.responses, served)),
]

const webhooks = () => Object.entries(description.webhooks).map(([name, { post }]): [string, Operation] => [name, post])

test('every JSON body has an example that matches its schema', () => {
  const examples = bodies().flatMap(([name, { content }]) => {
    const json = content?.['application/json']
    return json ? [{ name, ...json }] : []
  })
  expect(examples.length).toBeGreaterThan(300)
  for (const { name, schema, example } of examples)
    expect([name, example !== undefined, findProblem(schema as JsonSchema, example)]).toEqual([name, true, undefined])
})

test('names of operations and schemas are identifiers, and no schema is there twice', () => {
  const ids = [...operations, ...others, ...webhooks()].map(([, { operationId }]) => operationId)
  expect(ids.filter((id) => !/^[a-z][A-Za-z0-9]*$/.test(id))).toEqual([])
  expect(ids.length).toBe(new Set(ids).size)
  const names = Object.keys(served.components.schemas)
  expect(names.filter((name) => !/^[A-Z][A-Za-z]*(?:\d+(?:Hours|Days))?$/.test(name))).toEqual([])
  // An object that has a name is nowhere written out again.
  const written = JSON.stringify([served.paths, served.webhooks])
  const repeated = Object.entries(served.components.schemas).filter(([name, schema]) => {
    const { description: _, ...shape } = schema
    return name !== 'Error' && written.includes(JSON.stringify(shape).slice(1, -1))
  })
  expect(repeated.map(([name]) => name)).toEqual([])
})

// Proves: http-18
test('operations are named by verb and noun, and schemas by noun', () => {
  const ids = Object.fromEntries([...operations, ...others].map(([name, { operationId }]) => [operationId, name]))
  expect(ids).toMatchObject({
    sendEmail: 'POST /v1/emails',
    listEmails: 'GET /v1/emails',
    getEmail: 'GET /v1/emails/{id}',
    getEmailAsCaptured: 'GET /v1/emails/{id}/captured',
    cancelEmail: 'POST /v1/emails/{id}/cancel',
    createDomain: 'POST /v1/domains',
    verifyDomain: 'POST /v1/domains/{id}/verify',
    getDomainDns: 'GET /v1/domains/{id}/dns',
    updateWebhook: 'PUT /v1/webhooks/{id}',
    replayWebhookDelivery: 'POST /v1/webhooks/{id}/deliveries/{delivery_id}/replay',
    listInboundEmails: 'GET /v1/inbound',
    deleteInboundEmail: 'DELETE /v1/inbound/{id}',
    listMailboxMessages: 'GET /v1/agent-mailboxes/{id}/messages',
    searchMailboxMessages: 'GET /v1/agent-mailboxes/{id}/messages/search',
    importContacts: 'POST /v1/contact-lists/{id}/contacts/import',
    exportSuppressions: 'GET /v1/suppressions/export',
    listSubAccounts: 'GET /v1/accounts',
    createSubAccountApiKey: 'POST /v1/accounts/{id}/api-keys',
    listTeamMembers: 'GET /v1/team',
    getAnalyticsTimeseries: 'GET /v1/analytics/timeseries',
    login: 'POST /v1/auth/login',
    retryOperatorQueue: 'POST /v1/operator/queue/retry',
  })
  // A verb and at least one noun; none of them after the method or the parameters of its path.
  const verbs = /^(?:get|list|create|update|set|delete|[a-z]+)(?:[A-Z]|$)/
  expect(Object.keys(ids).filter((id) => !verbs.test(id) || /^(?:post|put|patch)|By[A-Z]/.test(id))).toEqual([])
  const names = Object.keys(served.components.schemas)
  const wanted =
    `Email EmailSummary EmailEvent Event InboundEmail Domain DnsRecord Webhook WebhookDelivery Contact Mailbox
    MailboxMessage MailboxThread ApiKey Suppression Template AutoResponderRule SendEmailRequest SendEmailResult
    CreateWebhookRequest`.split(/\s+/)
  expect(wanted.filter((name) => !names.includes(name))).toEqual([])
  expect(names.filter((name) => /(?:Dn|Statu|Addres|Analytic|Timeserie|Busines)(?=[A-Z]|$)|\d$/.test(name))).toEqual([])
})

// Proves: http-18
test('operators and people who sign in have a document of their own, and both documents are complete', async () => {
  const documents = await Promise.all(
    SPEC_PATHS.map(async (path) => (await (await fetch(`${service.url}${path}`)).json()) as Description),
  )
  for (const [index, { openapi, paths, components, tags, ...rest }] of documents.entries()) {
    expect(openapi).toBe('3.1.0')
    const isForOperators = Object.keys(paths).map((path) => /^\/v1\/(?:auth|operator)\//.test(path))
    expect(new Set(isForOperators)).toEqual(new Set([index === 1]))
    const written = JSON.stringify([paths, components, rest])
    const references = [...written.matchAll(/"\$ref":"#\/components\/(\w+)\/([\w-]+)"/g)]
    for (const [, kind = '', name = ''] of references) expect(components).toHaveProperty([kind, name])
    const used = new Set(references.map(([, , name]) => name))
    expect(Object.keys(components.schemas).filter((name) => !used.has(name))).toEqual([])
    const usedTags = new Set(Object.values(paths).flatMap((methods) => Object.values(methods).flatMap((o) => o.tags)))
    expect(tags.filter(({ name }) => !usedTags.has(name) && index === 1)).toEqual([])
  }
})

test('a request matches one path only, as routers of clients and test servers need it', () => {
  const paths = Object.keys(description.paths).map((path) => path.split('/'))
  const isAmbiguous = (a: readonly string[], b: readonly string[]) =>
    a.length === b.length &&
    a.every((segment, index) => [segment, b[index]].some((part) => part?.startsWith('{')) || segment === b[index]) &&
    a.some((segment, index) => segment.startsWith('{') && !b[index]?.startsWith('{')) &&
    b.some((segment, index) => segment.startsWith('{') && !a[index]?.startsWith('{'))
  expect(paths.flatMap((a) => paths.filter((b) => isAmbiguous(a, b)).map((b) => [a.join('/'), b.join('/')]))).toEqual(
    [],
  )
})

test('the statuses that every client handles stand by their number', () => {
  for (const [name, { responses, requestBody }] of [...operations, ...others]) {
    const isCreation = name.startsWith('POST') && ['201', '202'].some((status) => status in responses)
    const isFile = requestBody?.content?.['text/csv'] !== undefined
    const isForKeys = operations.some(([known]) => known === name)
    const expected = [
      '429',
      '503',
      ...(requestBody ? ['400'] : []),
      ...(isCreation && isForKeys && !isFile ? ['409'] : []),
    ]
    expect([name, Object.keys(responses)]).toEqual([name, expect.arrayContaining(expected)])
  }
  const { parameters, responses } = description.paths['/v1/account']?.['delete'] ?? { parameters: [], responses: {} }
  expect(parameters).toMatchObject([{ name: 'X-Confirm-Delete', in: 'header', required: true }])
  expect(Object.keys(responses)).toEqual(expect.arrayContaining(['202', '400']))
})

/** Headers of every response, which say nothing about the resource. */
const COMMON_HEADERS =
  /^(?:cache-control|content-(?:length|type|encoding|security-policy)|date|transfer-encoding|vary|x-content-type-options)$/

test('every header of a success is declared', async () => {
  for (const route of ROUTES) {
    const name = routeName(route)
    const [, operation] = operations.find(([known]) => known === name) ?? []
    const id = route.resource ? await service.make(route.resource) : ''
    const headers = { 'idempotency-key': `headers of ${name}` }
    const { status, headers: sent } = await service.ask(route, id, { headers })
    const declared = Object.keys(operation?.responses[`${status}`]?.headers ?? {}).map((header) => header.toLowerCase())
    const others = [...sent.keys()].filter((header) => !COMMON_HEADERS.test(header) && !declared.includes(header))
    expect([name, status, others]).toEqual([name, route.status, []])
    // What depends on no plan and no key is there, too.
    const always = ['x-request-id', 'etag', 'location', 'content-disposition']
    expect([name, declared.filter((header) => always.includes(header) && !sent.has(header))]).toEqual([name, []])
  }
})

test('every tag has a description, and every path parameter is a string', () => {
  const undescribedTags = description.tags.filter((tag) => !tag.description?.trim())
  expect(undescribedTags).toEqual([])
  expect(description.tags.length).toBeGreaterThan(10)
  for (const [name, { parameters }] of operations)
    for (const { in: place, schema } of parameters)
      if (place === 'path') expect([name, schema.type]).toEqual([name, 'string'])
})

test('the service accepts the examples of requests in the description', async () => {
  const examples = operations.flatMap(([name, { requestBody }]) =>
    (requestBody?.content?.['application/json']?.schema.examples ?? []).map((example) => ({ name, example })),
  )
  expect(examples.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['POST /v1/inbound-routes', 'POST /v1/agent-mailboxes', 'PUT /v1/inbound-routes/{id}']),
  )
  for (const { name, example } of examples) {
    const [method = '', path = ''] = name.split(' ')
    const { status, body } = await service.api(method, path.replace(/\{\w+\}/g, unknownId('mailbox')), example)
    // The example is valid in form; only the resources to which it refers do not exist.
    expect([name, status, status < 300 ? 'taken' : at(body, 'code')]).toEqual([
      name,
      path.includes('{') ? 404 : status,
      expect.stringMatching(/_not_found$|^taken$/),
    ])
  }
})

/** Fields that are refused in another way. */
const REFUSED_OTHERWISE = [
  // Read only with `template_alias`.
  'POST /v1/emails template_data',
  'POST /v1/emails/check template_data',
  // Each email has its own error.
  'POST /v1/emails/batch emails',
  // 404 for text that is no id.
  'POST /v1/signup-forms list_id',
]

/** Values of other types, and just beyond the limits of a schema, also in its parts. */
function listWrongValues(schema: Schema): unknown[] {
  const limits = [schema, ...(schema.anyOf ?? [])].flatMap((part) => {
    const { minLength, maxLength, minimum, maximum, maxItems } = part as Readonly<Record<string, number | undefined>>
    return [
      ...(minLength ? [''] : []),
      ...(maxLength === undefined ? [] : ['x'.repeat(maxLength + 1)]),
      ...(minimum === undefined ? [] : [minimum - 1]),
      ...(maximum === undefined ? [] : [maximum + 1]),
      ...(maxItems === undefined ? [] : [Array(maxItems + 1).fill('x')]),
    ]
  })
  const inner = [schema, ...(schema.anyOf ?? [])].flatMap(({ properties = {}, items }): unknown[] => [
    ...Object.entries(properties).flatMap(([name, part]) => listWrongValues(part).map((value) => ({ [name]: value }))),
    ...(items ? listWrongValues(items).map((value) => [value]) : []),
  ])
  const values = [true, 0.5, 'no such value', { 'no such': 1 }, [[1]], ...limits, ...inner]
  return values.filter((value) => findProblem(schema as JsonSchema, value) !== undefined)
}

// Proves: http-14
test('the service refuses each field of a request with a value that its schema excludes, and names the field', async () => {
  const faults: unknown[] = []
  let count = 0
  for (const [name, { requestBody }] of operations) {
    const route = ROUTES.find((each) => routeName(each) === name)
    const fields = Object.entries(requestBody?.content?.['application/json']?.schema.properties ?? {})
    if (!route?.body || fields.length === 0) continue
    const id = route.resource ? await service.make(route.resource) : ''
    for (const [field, schema] of fields.filter(([field]) => !REFUSED_OTHERWISE.includes(`${name} ${field}`)))
      for (const value of listWrongValues(schema)) {
        const body = { ...Object(route.body()), [field]: value }
        const answer = await service.ask({ ...route, body: () => body }, id)
        count++
        const details = answer.status === 422 ? (Object(answer.body).details as { field: string }[] | undefined) : []
        if (!details?.some((detail) => `${detail.field}.`.startsWith(`${field}.`)))
          faults.push([name, field, JSON.stringify(value).slice(0, 40), answer.status, details])
      }
  }
  expect(faults).toEqual([])
  expect(count).toBeGreaterThan(500)
})

test('every reference resolves, and required fields exist', () => {
  const references = [...JSON.stringify(served).matchAll(/"\$ref":"#\/components\/(\w+)\/([\w-]+)"/g)]
  expect(references.length).toBeGreaterThan(operations.length)
  for (const [, kind = '', name = ''] of references) expect(served.components).toHaveProperty([kind, name])
  const all = operations.flatMap(([name, { requestBody, responses }]) =>
    jsonSchemas([[`${name} body`, requestBody], ...Object.entries(responses)]),
  )
  expect(all.length).toBeGreaterThan(operations.length)
  for (const [name, schema] of all)
    for (const [path, { required = [], properties = {} }] of schemasIn(schema, name))
      expect([path, required.filter((field) => !(field in properties))]).toEqual([path, []])
})

// Proves: http-18
test('every field of a request has a description', () => {
  const bodies = jsonSchemas(operations.map(([name, { requestBody }]) => [name, requestBody]))
  expect(bodies.length).toBe(ROUTES.filter(({ body }) => body).length)
  expect(bodies.flatMap(([name, schema]) => undescribed(schema, name))).toEqual([])
})

// Proves: http-18
test('every field of a response has a description', () => {
  const answers = operations.flatMap(([name, { responses }]) =>
    jsonSchemas(
      Object.entries(responses)
        .filter(([status]) => /^2/.test(status))
        .map(([status, response]) => [`${name} ${status}`, response]),
    ),
  )
  expect(answers.length).toBe(ROUTES.filter(({ shape }) => shape !== 'none').length)
  const envelope = /\.(data|pagination)$/
  const missing = answers.flatMap(([name, schema]) => undescribed(schema, name)).filter((path) => !envelope.test(path))
  expect([...new Set(missing)]).toEqual([])
  expect(undescribed(description.components.schemas['Error'] ?? {}, 'Error')).toEqual([])
})

test('request objects reject unknown fields', () => {
  const bodies = jsonSchemas(operations.map(([name, { requestBody }]) => [name, requestBody]))
  for (const [name, schema] of bodies) expect([name, schema.additionalProperties]).toEqual([name, false])
})

// Proves: http-19, http-20
test('/docs lists every operation, and its pages load nothing from another host', async () => {
  const index = await fetch(`${service.url}/docs`)
  expect(index.status).toBe(200)
  const policy = index.headers.get('content-security-policy') ?? ''
  for (const directive of policy.split(';')) {
    const [, ...sources] = directive.trim().split(' ')
    for (const source of sources) expect(source).toBeOneOf(["'none'", "'self'", "'unsafe-inline'", 'data:'])
  }
  expect(policy).toContain("default-src 'none'")
  expect(policy).not.toContain('script-src')
  const html = await index.text()
  const pages = [...html.matchAll(/href="(\/docs\/[^"]+)"/g)].map(([, url = '']) => url)
  expect(pages.length).toBe(operations.length + others.length + webhooks().length)
  const texts = await Promise.all(
    pages.map(async (path) => {
      const page = await fetch(`${service.url}${path}`)
      expect([path, page.status]).toEqual([path, 200])
      return page.text()
    }),
  )
  for (const text of [html, ...texts]) {
    const urls = [...text.matchAll(/<[^>]*(?:src|href|action|data|poster)\s*=\s*["']([^"']+)["']/g)]
    expect(urls.map(([, url = '']) => url).filter((url) => !/^(\/(?!\/)|data:)/.test(url))).toEqual([])
    expect(text).not.toMatch(/<script|@import|url\(/)
  }
})
