/**
 * @module `/openapi.json`, `/openapi-operator.json`, `/docs` and `/docs/{operation}`: the API description, for programs
 * and for people. Serves the files that platform/http/docs-page.ts makes.
 */
import { Elysia } from 'elysia'
import { type BuiltFiles, readTextFile, sendBuiltFile } from '#platform/http/built-files.ts'
import { escapeHtml, type Html, html, htmlResponse, PAGE_HEADERS, trustedHtml } from '#platform/http/html.ts'
import { once } from '#platform/http/route-table.ts'

/** A search has a few words. */
const MAX_SEARCH_LENGTH = 200

/** A new version of the service has new files at the same paths. */
const CACHING = { 'cache-control': 'no-cache' }

/** @param load called once, at the first request */
export function docsRoutes(load: () => Promise<BuiltFiles>) {
  const loadFiles = once(load)
  const readIndex = once(async () => readTextFile(await loadFiles(), 'docs.html'))
  const readWords = once(async () => JSON.parse(await readTextFile(await loadFiles(), 'docs-words.json')))
  const hidden = { detail: { hide: true } }
  const sendPage = async (name: string, request: Request): Promise<Response> =>
    sendBuiltFile(await loadFiles(), `${name}.html`, request, { ...PAGE_HEADERS, ...CACHING })
  const routes = new Elysia()
    .get(
      '/docs',
      async ({ request }) => {
        const search = (new URL(request.url).searchParams.get('q') ?? '').slice(0, MAX_SEARCH_LENGTH)
        return search.trim() === ''
          ? sendPage('docs', request)
          : htmlResponse(renderSearch(await readIndex(), await readWords(), search))
      },
      hidden,
    )
    .get('/docs/:operation', ({ params, request }) => sendPage(`docs/${params.operation}`, request), hidden)
  for (const name of ['openapi.json', 'openapi-operator.json'])
    routes.get(`/${name}`, async ({ request }) => sendBuiltFile(await loadFiles(), name, request, CACHING), hidden)
  return routes
}

/** The page without the operations that lack a word of the search. */
function renderSearch(page: string, words: Readonly<Record<string, string>>, search: string): Html {
  const wanted = search.toLowerCase().split(/\s+/)
  const isFound = (id: string): boolean => wanted.every((word) => words[id]?.includes(word))
  const ids = Object.keys(words)
  const result = html`<p>${ids.filter(isFound).length} of ${ids.length} operations. <a href="/docs">All</a></p>`
  const rewriter = new HTMLRewriter()
    .on('#q', { element: (input) => void input.setAttribute('value', escapeHtml(search)) })
    .on('form', { element: (form) => void form.after(result.text, { html: true }) })
    .on('li[id]', {
      element(item) {
        if (!isFound(item.getAttribute('id') ?? '')) item.remove()
      },
    })
  return trustedHtml(rewriter.transform(page))
}
