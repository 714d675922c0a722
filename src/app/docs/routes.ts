/**
 * @module `/openapi.json`, `/openapi-operator.json`, `/docs` and `/docs/{operation}`: the API description, for programs
 * and for people. Serves the files that platform/http/docs-page.ts makes.
 */
import { Elysia } from 'elysia'
import { type BuiltFiles, sendBuiltFile } from '#platform/http/built-files.ts'
import { PAGE_HEADERS } from '#platform/http/html.ts'
import { once } from '#platform/http/route-table.ts'

/** A new version of the service has new files at the same paths. */
const CACHING = { 'cache-control': 'no-cache' }

/** @param load called once, at the first request */
export function docsRoutes(load: () => Promise<BuiltFiles>) {
  const loadFiles = once(load)
  const hidden = { detail: { hide: true } }
  const sendPage = async (name: string, request: Request): Promise<Response> =>
    sendBuiltFile(await loadFiles(), `${name}.html`, request, { ...PAGE_HEADERS, ...CACHING })
  const routes = new Elysia()
    .get('/docs', ({ request }) => sendPage('docs', request), hidden)
    .get('/docs/:operation', ({ params, request }) => sendPage(`docs/${params.operation}`, request), hidden)
  for (const name of ['openapi.json', 'openapi-operator.json'])
    routes.get(`/${name}`, async ({ request }) => sendBuiltFile(await loadFiles(), name, request, CACHING), hidden)
  return routes
}
