/**
 * @module /app: the dashboard. One HTML page for all its screens, and the files it loads. The page needs no session: it
 * asks `/v1` who is signed in. Hidden under the tracking hosts of accounts.
 */
import { Elysia } from 'elysia'
import type { AuthContext } from '#features/people/team/auth-context.ts'
import { unknownRoute } from '#platform/http/error-response.ts'
import { html, htmlResponse } from '#platform/http/html.ts'
import { randomBytes } from '#platform/ids.ts'
import { type DashboardAssets, loadDashboardAssets, toAssetResponse } from './assets.ts'
import { ASSETS_PATH } from './bundle.ts'

const NONCE_BYTES = 16

/** Scripts only from our files; styles also from elements that know the nonce of this response. */
const toContentSecurityPolicy = (nonce: string): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "connect-src 'self'",
    "frame-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; ')

/** @param loadAssets called once, at the first request */
export function dashboardRoutes(
  auth: Pick<AuthContext, 'requireOwnHost'>,
  loadAssets: () => Promise<DashboardAssets> = loadDashboardAssets,
) {
  let loading: Promise<DashboardAssets> | undefined
  const load = (): Promise<DashboardAssets> => {
    loading ??= loadAssets()
    return loading
  }
  const showPage = async (request: Request): Promise<Response> => {
    auth.requireOwnHost(request)
    const assets = await load()
    const nonce = Buffer.from(randomBytes(NONCE_BYTES)).toString('base64')
    return htmlResponse(renderShell(assets, nonce), 200, { 'content-security-policy': toContentSecurityPolicy(nonce) })
  }
  const hidden = { detail: { hide: true } }
  return new Elysia()
    .get(
      `${ASSETS_PATH}:name`,
      async ({ params, request }) => {
        auth.requireOwnHost(request)
        const response = toAssetResponse(await load(), params.name, request.headers.get('accept-encoding'))
        if (!response) throw unknownRoute()
        return response
      },
      hidden,
    )
    .get('/app', ({ request }) => showPage(request), hidden)
    .get('/app/*', ({ request }) => showPage(request), hidden)
}

const renderShell = ({ script, style }: DashboardAssets, nonce: string) => html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex, nofollow">
<meta name="color-scheme" content="light dark">
<title>Tassis</title>
<link rel="icon" href="/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${ASSETS_PATH}${style}">
<style nonce="${nonce}"></style>
<script type="module" src="${ASSETS_PATH}${script}"></script>
</head>
<body>
<div id="root"></div>
<noscript><p class="no-script">The dashboard needs JavaScript. Without it there are <a href="/login">the page of your session</a> and <a href="/docs">the API description</a>.</p></noscript>
</body>
</html>
`
