/**
 * @module `/openapi.json`, `/openapi-operator.json`, `/docs` and `/docs/{operation}`: the API description, for programs
 * and for people; `/llms.txt` and `/docs/{page}.md`: the documents as Markdown. Serves the files that
 * platform/http/docs-page.ts and documents.ts make.
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
  const sendText = async (name: string, request: Request): Promise<Response> =>
    sendBuiltFile(await loadFiles(), name, request, CACHING)
  const routes = new Elysia()
    .get('/docs', ({ request }) => sendPage('docs', request), hidden)
    .get(
      '/docs/:operation',
      ({ params, request }) => {
        const name = `docs/${params.operation}`
        return name.endsWith('.md') ? sendText(name, request) : sendPage(name, request)
      },
      hidden,
    )
    .get(
      '/docs/integrations/:page',
      ({ params, request }) => sendText(`docs/integrations/${params.page}`, request),
      hidden,
    )
  for (const name of ['openapi.json', 'openapi-operator.json', 'llms.txt'])
    routes.get(`/${name}`, ({ request }) => sendText(name, request), hidden)
  return routes
}
