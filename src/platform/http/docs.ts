/** @module `/openapi.json`, `/docs` and `/docs/{operation}`: the API description, for programs and for people. */
import { type AnyElysia, Elysia } from 'elysia'
import { createDocsPages, type DocsPages } from './docs-page.ts'
import { unknownRoute } from './error-response.ts'
import { htmlResponse } from './html.ts'
import { type ApiInfo, describeApi } from './openapi.ts'

/** A search has a few words. */
const MAX_SEARCH_LENGTH = 200

/** The plugin that describes `routes`. The description is created at the first request, in small steps. */
export function docsRoutes(routes: readonly AnyElysia[], info: ApiInfo) {
  let description: Promise<string> | undefined
  const describe = (): Promise<string> => {
    description ??= describeApi(routes, info)
    return description
  }
  let pages: Promise<DocsPages> | undefined
  const loadPages = (): Promise<DocsPages> => {
    pages ??= describe().then(createDocsPages)
    return pages
  }
  const hidden = { detail: { hide: true } }
  return new Elysia()
    .get(
      '/openapi.json',
      async () => new Response(await describe(), { headers: { 'content-type': 'application/json' } }),
      hidden,
    )
    .get(
      '/docs',
      async ({ request }) => {
        const search = new URL(request.url).searchParams.get('q') ?? ''
        return htmlResponse((await loadPages()).index(search.slice(0, MAX_SEARCH_LENGTH)))
      },
      hidden,
    )
    .get(
      '/docs/:operation',
      async ({ params }) => {
        const page = (await loadPages()).operation(params.operation)
        if (!page) throw unknownRoute()
        return htmlResponse(page)
      },
      hidden,
    )
}
