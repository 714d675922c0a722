import { expect, test } from 'bun:test'
import { gunzipSync } from 'node:zlib'
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { docsRoutes } from '#app/docs/routes.ts'
import { errorResponses, requires } from '#platform/http/access.ts'
import { compressWhenRead } from '#platform/http/built-files.ts'
import { createDocs } from '#platform/http/docs-page.ts'
import { fileResponseSpec } from '#platform/http/download.ts'
import { describeApi } from '#platform/http/openapi.ts'
import { Nullable } from '#platform/http/schemas.ts'
import { boxRoutes, planRoutes, startTestServer } from './fixture.ts'

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const INFO = { title: 'Boxes & <more>', version: '1.2.3', description: 'A test.' }

const startWithDocs = () => {
  const features = [boxRoutes(), planRoutes()]
  return startTestServer({
    routes: [...features, docsRoutes(async () => compressWhenRead(await createDocs(features, INFO)))],
  })
}

interface Operation {
  operationId: string
  security?: object[]
  description: string
  parameters: { name: string; in: string; schema: object; required: boolean; description?: string }[]
  requestBody?: { content: Record<string, { schema: object }> }
  responses: Record<
    string,
    { description?: string; $ref?: string; content?: Record<string, { schema: object; example?: object }> }
  >
}

interface Description {
  openapi: string
  info: object
  paths: Record<string, Record<string, Operation>>
  components: { responses: Record<string, object>; schemas: Record<string, object>; securitySchemes: object }
}

const describeTestApi = async (): Promise<Description> => {
  await using server = startWithDocs()
  const response = await server.request('/openapi.json', { headers: {} })
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/json'])
  return (await response.json()) as Description
}

test('our own schema keywords become standard ones', async () => {
  const description = await describeTestApi()
  const text = JSON.stringify(description)
  for (const word of ['x-integer', 'x-format', 'x-missing', 'errorMessage', 'patternProperties'])
    expect(text).not.toContain(word)
  const { get, post } = description.paths['/v1/boxes'] ?? {}
  expect(get?.parameters.find(({ name }) => name === 'per_page')).toEqual({
    name: 'per_page',
    in: 'query',
    required: false,
    description: 'Rows on a page.',
    schema: { type: 'integer', minimum: 1, maximum: 100, default: 25 },
  })
  expect(post?.requestBody?.content['application/json']?.schema).toEqual({
    $ref: '#/components/schemas/CreateBoxRequest',
  })
  expect(description.components.schemas['CreateBoxRequest']).toMatchObject({
    type: 'object',
    additionalProperties: false,
    required: ['label'],
    properties: {
      kind: { type: 'string', enum: ['paper', 'wood'] },
      metadata: { anyOf: [{ type: 'object', additionalProperties: {} }, { type: 'null' }] },
    },
  })
})

test("a route describes its file's media type, its own errors with examples, and path parameters as texts", async () => {
  const detail = { summary: 'Get a lid', tags: ['Lids'], ...requires('boxes:read') }
  const routes = new Elysia({ prefix: '/v1/lids' })
    .get('/:id/picture', () => '', {
      params: Type.Object({ id: Nullable(Type.String(), { description: 'Id of the lid.' }) }),
      detail: {
        ...detail,
        ...fileResponseSpec('The picture.', 'image/png'),
        ...errorResponses({ 409: ['lid_open', 'It is open.'] }),
      },
    })
    .get('/any', () => '', { detail: { ...detail, ...fileResponseSpec('Whatever it is.') } })
    .delete('/all', () => '', { detail: { ...detail, ...errorResponses({ 408: ['lid_stuck', 'It is stuck.'] }) } })
  const text = await describeApi([routes], { ...INFO, tags: { Lids: 'What lies on boxes.', Boxes: 'Unused.' } })
  expect(text).not.toContain('x-refusals')
  const description = JSON.parse(text) as Description & { tags: object[] }
  expect([description.info, description.tags]).toEqual([INFO, [{ name: 'Lids', description: 'What lies on boxes.' }]])
  const { paths } = description
  const picture = paths['/v1/lids/{id}/picture']?.['get']
  expect(picture?.parameters).toEqual([
    { name: 'id', in: 'path', required: true, description: 'Id of the lid.', schema: { type: 'string' } },
  ])
  const file = { schema: { type: 'string', format: 'binary' } }
  expect(picture?.responses['200']).toMatchObject({ description: 'The picture.', content: { 'image/png': file } })
  expect(paths['/v1/lids/any']?.['get']?.responses['200']?.content).toEqual({ '*/*': file })
  const error = { code: 'lid_open', message: 'It is open.', type: 'conflict' }
  expect(picture?.responses['409']).toMatchObject({
    description: 'It is open.',
    content: {
      'application/json': {
        schema: { $ref: '#/components/schemas/Error' },
        example: { error: { ...error, docs_url: null }, ...error, request_id: expect.stringMatching(UUID) },
      },
    },
  })
  expect(Object.keys(paths['/v1/lids/all']?.['delete']?.responses ?? {})).toEqual([
    '204',
    '401',
    '403',
    '408',
    '429',
    '503',
    'default',
  ])
})

// Proves: http-19
test('the index lists the operations, loads nothing but the icon, and its policy forbids scripts', async () => {
  await using server = startWithDocs()
  const page = await server.request('/docs', { headers: {} })
  expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
  const policy = page.headers.get('content-security-policy') ?? ''
  expect(policy).toContain("default-src 'none'")
  expect(policy).not.toMatch(/https?:|\*|script-src|'unsafe-eval'/)
  const text = await page.text()
  expect(text).toContain('<title>Boxes &amp; &lt;more&gt;</title>')
  const [icon, ...links] = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1] ?? '')
  expect(icon).toBe('/icon.svg')
  expect(links).toHaveLength(10)
  for (const path of links) expect((await server.request(path, { headers: {} })).status).toBe(200)
})

// Proves: http-20
test('the page of an operation has its parameters, body, example and responses', async () => {
  await using server = startWithDocs()
  const read = async (id: string): Promise<string> => (await server.request(`/docs/${id}`, { headers: {} })).text()
  const list = await read('listBoxes')
  expect(list).toContain(
    '<code>per_page</code> <span class="kind">integer, in query, optional, default 25, minimum 1, maximum 100</span>',
  )
  const creation = await read('createBox')
  expect(creation).toContain('one of &quot;paper&quot;, &quot;wood&quot;')
  expect(creation).toMatch(/<code>label<\/code> <span class="kind">string, required/)
  expect(creation).toContain('curl -X POST &quot;$URL/v1/boxes&quot;')
  expect(creation).toContain('{&quot;label&quot;:')
  for (const status of ['201', '401', '403', '422', 'Any other status'])
    expect(creation).toContain(`<h3>${status}</h3>`)
  const missing = await server.request('/docs/no', { headers: {} })
  expect(missing.status).toBe(404)
})

test('pages and descriptions are compressed once, as the client accepts, and a known one is a 304', async () => {
  await using server = startWithDocs()
  for (const path of ['/docs', '/docs/listBoxes', '/openapi.json']) {
    const ask = (headers: Record<string, string>) => server.request(path, { headers, decompress: false } as RequestInit)
    const plain = await ask({})
    expect([plain.headers.get('content-encoding'), plain.headers.get('cache-control')]).toEqual([null, 'no-cache'])
    const gzip = await ask({ 'accept-encoding': 'gzip' })
    expect(gzip.headers.get('content-encoding')).toBe('gzip')
    expect(gunzipSync(await gzip.bytes()).toString()).toBe(await plain.text())
    const known = await ask({ 'if-none-match': gzip.headers.get('etag') ?? '' })
    expect([known.status, await known.text()]).toEqual([304, ''])
  }
})
