/**
 * @module The files of /docs, generated from the routes: the API description, an index of its operations and a page for
 * each. The pages need no scripts. Used at build time, and once in a run from sources.
 */
import type { AnyElysia } from 'elysia'
import { type Html, html, htmlPage } from './html.ts'
import { type ApiInfo, describeApi } from './openapi.ts'
import type { Schema } from './openapi-examples.ts'

type Content = Readonly<Record<string, { readonly schema?: Schema; readonly example?: unknown }>>

interface Response {
  readonly $ref?: string
  readonly description?: string
  readonly content?: Content
}

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly description?: string
  readonly schema: Schema
}

interface Operation {
  readonly operationId: string
  readonly summary?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly required?: boolean; readonly content: Content }
  readonly responses: Readonly<Record<string, Response>>
}

/** What the pages need of an API description. */
interface Description {
  /** Its file. */
  readonly file: string
  readonly info: { readonly title: string }
  readonly tags?: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  /** Requests to the URLs of users. */
  readonly webhooks?: Readonly<Record<string, { readonly post: Operation }>>
  readonly components: {
    readonly responses: Readonly<Record<string, Response>>
    readonly schemas: Readonly<Record<string, Schema>>
    readonly securitySchemes: Readonly<Record<string, { readonly description?: string }>>
  }
}

interface Entry {
  readonly api: Description
  readonly method: string
  /** For a webhook, its name. */
  readonly path: string
  readonly operation: Operation
}

const STYLE = `
main { max-width: 74rem; }
:root { font-size: 1rem; }
h2, h3 { scroll-margin-top: 1rem; }
.docs { display: grid; grid-template-columns: 13rem minmax(0, 1fr); gap: 2.5rem; align-items: start; }
.docs > nav { position: sticky; top: 1rem; max-height: calc(100vh - 2rem); overflow-y: auto; font-size: .875rem; }
.docs > nav ul { margin: 0; padding: 0; list-style: none; }
.docs > nav ul ul { margin: 0 0 .5rem .5rem; padding-left: .25rem; border-left: 1px solid var(--line); }
.docs > nav li { margin: 0; }
.docs > nav a { display: block; padding: .25rem .5rem; border-radius: 6px; color: var(--faint); text-decoration: none; }
.docs > nav a:hover, .docs > nav [aria-current] { background: var(--page); color: var(--text); }
.docs > nav [aria-current] { font-weight: 600; }
@media (max-width: 56rem) {
  .docs { display: block; }
  .docs > nav { position: static; max-height: 12rem; margin-bottom: 1.5rem; border: 1px solid var(--line); border-radius: 8px; }
}
h3 { margin: 1.5rem 0 .5rem; font-size: 1rem; }
ul { padding-left: 1.25rem; overflow-wrap: anywhere; }
li { margin: .25rem 0; }
code, pre { font: .9375em/1.4 ui-monospace, monospace; }
pre { padding: .75rem; border: 1px solid var(--line); border-radius: 8px; white-space: pre-wrap; overflow-wrap: anywhere; }
.kind { color: var(--faint); }
`

/** All files of /docs, by their names: operations that no API key can call have a description of their own. */
export async function createDocs(routes: readonly AnyElysia[], info: ApiInfo) {
  const { operators } = info
  const isForOperators = (path: string): boolean => operators?.paths.some((start) => path.startsWith(start)) ?? false
  const documents = new Map([['openapi.json', await describeApi(routes, info, (path) => !isForOperators(path))]])
  if (operators) {
    const restricted = { ...info, ...operators, webhooks: [] }
    documents.set('openapi-operator.json', await describeApi(routes, restricted, isForOperators))
  }
  const apis = [...documents].map(([file, json]): Description => ({ ...JSON.parse(json), file }))
  const entries = apis.flatMap(listEntries)
  return [
    ...Array.from(documents, ([name, content]) => ({ name, content })),
    { name: 'docs.html', content: renderIndex(info, apis, entries).text },
    ...entries.map((entry) => ({
      name: `docs/${entry.operation.operationId}.html`,
      content: renderOperation(entry, entries).text,
    })),
  ]
}

/** In the place of a method. */
const WEBHOOK_METHOD = 'webhook'

const listEntries = (api: Description): Entry[] => [
  ...Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ api, method: method.toUpperCase(), path, operation })),
  ),
  ...Object.entries(api.webhooks ?? {}).map(([path, { post }]) => ({
    api,
    method: WEBHOOK_METHOD,
    path,
    operation: post,
  })),
]

const groupOf = ({ operation }: Entry): string => operation.tags?.[0] ?? 'Others'

/** The groups of operations beside a page; below the one that it is about, its operations. */
const withNavigation = (entries: readonly Entry[], main: Html, current?: Entry): Html => html`<div class="docs">
<nav aria-label="API"><ul><li><a href="/docs"${!current && html` aria-current="page"`}>All operations</a></li>
${[...Map.groupBy(entries, groupOf)].map(
  ([tag, members]) =>
    html`<li><a href="/docs#${encodeURIComponent(tag)}">${tag}</a>${
      current &&
      groupOf(current) === tag &&
      html`<ul>${members.map(
        (member) =>
          html`<li><a href="/docs/${encodeURIComponent(member.operation.operationId)}"${member === current && html` aria-current="page"`}>${member.operation.summary ?? member.path}</a></li>`,
      )}</ul>`
    }</li>`,
)}</ul></nav>
<div>${main}</div>
</div>`

/** The index is about all descriptions, under the title of the first. */
function renderIndex({ title, description }: ApiInfo, apis: readonly Description[], entries: readonly Entry[]): Html {
  const security = Object.values(apis[0]?.components.securitySchemes ?? {})
  const tags = new Map(apis.flatMap(({ tags = [] }) => tags.map((tag) => [tag.name, tag.description])))
  const groups = Map.groupBy(entries, groupOf)
  return htmlPage({
    icon: '/icon.svg',
    title,
    style: STYLE,
    main: withNavigation(
      entries,
      html`<h1>${title}</h1>
<p>${description}</p>
${apis.map((api) => html`<p><a href="/${api.file}">OpenAPI description of ${api.info.title}</a></p>`)}
<h2>Authentication</h2>
<ul>${security.map((scheme) => html`<li>${formatText(scheme.description)}</li>`)}</ul>
<h2>Operations</h2>
${[...groups].map(
  ([tag, members]) => html`<section><h3 id="${encodeURIComponent(tag)}">${tag}</h3>
${tags.get(tag) && html`<p>${tags.get(tag)}</p>`}
<ul>${members.map(
    ({ method, path, operation: { operationId, summary } }) =>
      html`<li id="${operationId}"><a href="/docs/${encodeURIComponent(operationId)}"><code>${method} ${path}</code></a> ${summary}</li>`,
  )}</ul></section>`,
)}`,
    ),
  })
}

function renderOperation(entry: Entry, entries: readonly Entry[]): Html {
  const { components, info } = entry.api
  const { method, path, operation } = entry
  const { summary, description, parameters = [], requestBody, responses } = operation
  const body = Object.entries(requestBody?.content ?? {})
  return htmlPage({
    icon: '/icon.svg',
    title: `${summary ?? path} · ${info.title}`,
    style: STYLE,
    main: withNavigation(
      entries,
      html`<h1>${summary ?? path}</h1>
<p><code>${method} ${path}</code></p>
<p>${formatText(description)}</p>
${
  parameters.length > 0 &&
  html`<h2>Parameters</h2>
<ul>${parameters.map(
    ({ name, in: place, required, description: text, schema }) =>
      html`<li>${renderField(name, { ...schema, description: text ?? schema.description ?? '' }, required === true, components.schemas, `in ${place}`)}</li>`,
  )}</ul>`
}
${body.map(([type, { schema }]) => html`<h2>Body</h2><p class="kind">${type}</p>${schema && renderSchema(schema, components.schemas)}`)}
<h2>Example</h2>
<pre>${renderExample(entry)}</pre>
<h2>Responses</h2>
${Object.entries(responses).map(([status, response]) => renderResponse(status, response, components))}`,
      entry,
    ),
  })
}

function renderResponse(status: string, response: Response, components: Description['components']): Html {
  const { description, content = {} } = response.$ref
    ? (components.responses[nameOf(response.$ref)] ?? response)
    : response
  return html`<h3>${status === 'default' ? 'Any other status' : status}</h3>
<p>${formatText(description)}</p>
${Object.entries(content).map(
  ([type, { schema, example }]) => html`<p class="kind">${type}</p>
${schema?.$ref === undefined && schema && renderSchema(schema, components.schemas)}
${example !== undefined && html`<pre>${JSON.stringify(example, null, 2)}</pre>`}`,
)}`
}

type Schemas = Description['components']['schemas']

const nameOf = (reference: string): string => reference.split('/').at(-1) ?? ''

const resolve = (schema: Schema, schemas: Schemas): Schema =>
  schema.$ref === undefined ? schema : (schemas[nameOf(schema.$ref)] ?? schema)

function withoutNull(schema: Schema): Schema {
  const others = schema.anyOf?.filter(({ type }) => type !== 'null')
  return others?.length === 1 && others[0]
    ? { ...others[0], ...(schema.description && { description: schema.description }) }
    : schema
}

/** What a value looks like, on one line. */
function describeType(schema: Schema, schemas: Schemas): string {
  const { type, format, anyOf, items } = resolve(schema, schemas)
  if (anyOf) return anyOf.map((alternative) => describeType(alternative, schemas)).join(' or ')
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (type === 'array' && items) return `array of ${describeType(items, schemas)}`
  return [Array.isArray(type) ? type.join(' or ') : (type ?? 'any'), format && `(${format})`].filter(Boolean).join(' ')
}

const LIMITS = ['default', 'minimum', 'maximum', 'minLength', 'maxLength', 'minItems', 'maxItems'] as const

function describeLimits(schema: Schema): string[] {
  const inner = withoutNull(schema)
  return [
    ...(inner.enum ? [`one of ${inner.enum.map((value) => JSON.stringify(value)).join(', ')}`] : []),
    ...LIMITS.flatMap((name) => {
      const value = schema[name] ?? inner[name]
      return value === undefined ? [] : [`${name} ${JSON.stringify(value)}`]
    }),
  ]
}

function renderField(name: string, schema: Schema, isRequired: boolean, schemas: Schemas, place?: string): Html {
  const kinds = [describeType(schema, schemas), place, isRequired ? 'required' : 'optional', ...describeLimits(schema)]
  return html`<code>${name}</code> <span class="kind">${kinds.filter(Boolean).join(', ')}</span>
${schema.description && html`<br>${formatText(schema.description)}`}
${renderSchema(schema, schemas)}`
}

/** The fields of an object, or of the objects in an array; empty for other values. */
function renderSchema(schema: Schema, schemas: Schemas): Html {
  const { items, properties, required = [], anyOf } = withoutNull(resolve(schema, schemas))
  if (items) return renderSchema(items, schemas)
  if (anyOf) return html`${anyOf.map((alternative) => renderSchema(alternative, schemas))}`
  const fields = Object.entries(properties ?? {})
  return fields.length === 0
    ? html``
    : html`<ul>${fields.map(([name, field]) => html`<li>${renderField(name, field, required.includes(name), schemas)}</li>`)}</ul>`
}

/** A curl command with the required fields; for a webhook, its body. */
function renderExample({ method, path, operation }: Entry): string {
  const body = operation.requestBody?.content['application/json']
  if (method === WEBHOOK_METHOD) return JSON.stringify(body?.example, null, 2)
  return [
    `curl ${method === 'GET' ? '' : `-X ${method} `}"$URL${path}"`,
    `  -H "Authorization: Bearer $KEY"`,
    ...(body ? [`  -H 'Content-Type: application/json'`, `  -d '${JSON.stringify(body.example)}'`] : []),
  ].join(' \\\n')
}

/** Text in which backquotes mark code. */
const formatText = (text = ''): Html =>
  html`${text.split('`').map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))}`
