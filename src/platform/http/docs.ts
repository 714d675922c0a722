/**
 * @module `/openapi.json`, `/openapi-operator.json`, `/docs` and `/docs/{operation}`: the API description, for programs
 * and for people.
 */
import { type AnyElysia, Elysia } from 'elysia'
import { createDocsPages, type DocsPages } from './docs-page.ts'
import { unknownRoute } from './error-response.ts'
import { htmlResponse } from './html.ts'
import { type ApiInfo, describeApi } from './openapi.ts'
import { once } from './route-table.ts'

const SPEC_PATH = '/openapi.json'
const OPERATOR_SPEC_PATH = '/openapi-operator.json'

/** A search has a few words. */
const MAX_SEARCH_LENGTH = 200

/** The plugin that describes `routes`. The descriptions are created at the first request, in small steps. */
export function docsRoutes(routes: readonly AnyElysia[], info: ApiInfo) {
  const paths = info.operators?.paths ?? []
  const isForOperators = (path: string): boolean => paths.some((start) => path.startsWith(start))
  const describe = once(() => describeApi(routes, info, (path) => !isForOperators(path)))
  const describeOperators = once(() =>
    describeApi(routes, { ...info, ...info.operators, webhooks: [] }, isForOperators),
  )
  const loadPages = once(
    async (): Promise<DocsPages> =>
      createDocsPages([
        { path: SPEC_PATH, json: await describe() },
        ...(paths.length > 0 ? [{ path: OPERATOR_SPEC_PATH, json: await describeOperators() }] : []),
      ]),
  )
  const hidden = { detail: { hide: true } }
  return new Elysia()
    .get(SPEC_PATH, async () => jsonResponse(await describe()), hidden)
    .get(OPERATOR_SPEC_PATH, async () => jsonResponse(await describeOperators()), hidden)
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

const jsonResponse = (json: string): Response => new Response(json, { headers: { 'content-type': 'application/json' } })
