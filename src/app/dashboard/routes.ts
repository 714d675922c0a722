/**
 * @module /app: the dashboard. One HTML page for all its screens, and the files it loads. The page needs no session: it
 * asks `/v1` who is signed in. Hidden under the tracking hosts of accounts.
 */
import { Elysia } from 'elysia'
import type { AuthContext } from '#features/people/team/auth-context.ts'
import { readField } from '#features/people/team/form-pages.ts'
import { PASSKEY_PATH } from '#features/people/team/links.ts'
import { passkeyPage } from '#features/people/team/page.ts'
import { type BuiltFiles, sendBuiltFile } from '#platform/http/built-files.ts'
import { html, htmlResponse, ownFormResponse, PAGE_HEADERS } from '#platform/http/html.ts'
import { once } from '#platform/http/route-table.ts'
import { randomBytes } from '#platform/ids.ts'
import { VERSION } from '../version.ts'

export const ASSETS_PATH = '/app/assets/'

/** The name of a file contains a hash of its content. */
export const ASSET_HEADERS = {
  'cache-control': 'public, max-age=31536000, immutable',
  'cross-origin-resource-policy': 'same-origin',
}

const NONCE_BYTES = 16

/** Scripts only from our files; styles also from elements that know the nonce of this response. */
const toContentSecurityPolicy = (nonce: string): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "frame-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; ')

/** Of the page that uses a passkey: as other pages, but with its script. */
const PASSKEY_POLICY = `${PAGE_HEADERS['content-security-policy']}; script-src 'self'; connect-src 'self'`

/** @param loadFiles called once, at the first request */
export function dashboardRoutes(
  auth: Pick<AuthContext, 'requireOwnHost' | 'toNextPath'>,
  loadFiles: () => Promise<BuiltFiles>,
) {
  const load = once(loadFiles)
  const showPage = async (request: Request): Promise<Response> => {
    auth.requireOwnHost(request)
    const entries = findEntries(await load())
    const nonce = Buffer.from(randomBytes(NONCE_BYTES)).toString('base64')
    return htmlResponse(renderShell(entries, nonce), 200, { 'content-security-policy': toContentSecurityPolicy(nonce) })
  }
  const hidden = { detail: { hide: true } }
  return new Elysia()
    .get(
      `${ASSETS_PATH}:name`,
      async ({ params, request }) => {
        auth.requireOwnHost(request)
        return sendBuiltFile(await load(), params.name, request, ASSET_HEADERS)
      },
      hidden,
    )
    .get(
      PASSKEY_PATH,
      async ({ query, request }) => {
        auth.requireOwnHost(request)
        const { passkeyScript } = findEntries(await load())
        const page = passkeyPage(auth.toNextPath(readField(query, 'next')), `${ASSETS_PATH}${passkeyScript}`)
        return ownFormResponse(page, 200, { 'content-security-policy': PASSKEY_POLICY })
      },
      hidden,
    )
    .get('/app', ({ request }) => showPage(request), hidden)
    .get('/app/*', ({ request }) => showPage(request), hidden)
}

/** What the page loads: the script, which loads all others, and the styles. */
export function findEntries(files: ReadonlyMap<string, unknown>) {
  const find = (pattern: RegExp): string => {
    const found = [...files.keys()].find((name) => pattern.test(name))
    if (found === undefined) throw new Error(`the bundle of the dashboard has no file ${pattern.source}`)
    return found
  }
  return {
    script: find(/^main-\w+\.js$/),
    style: find(/^main-\w+\.css$/),
    font: find(/\.woff2$/),
    passkeyScript: find(/^passkey-page-\w+\.js$/),
  }
}

const renderShell = ({ script, style, font }: ReturnType<typeof findEntries>, nonce: string) => html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex, nofollow">
<meta name="color-scheme" content="light dark">
<meta name="version" content="${VERSION}">
<title>Tassis</title>
<link rel="icon" href="/icon.svg" type="image/svg+xml">
<link rel="preload" href="${ASSETS_PATH}${font}" as="font" type="font/woff2" crossorigin>
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
