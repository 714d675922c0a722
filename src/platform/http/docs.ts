/**
 * @module `/openapi.json` and `/docs`: the API description, and a page to read it and try it out. The page loads
 * nothing from other hosts; its script and styles (swagger-ui) are inside the executable.
 */
import { type AnyElysia, Elysia } from 'elysia'
import uiStylePath from 'swagger-ui-dist/swagger-ui.css' with { type: 'file' }
import uiScriptPath from 'swagger-ui-dist/swagger-ui-bundle.js' with { type: 'file' }
import { html, htmlResponse } from './html.ts'
import { type ApiInfo, describeApi } from './openapi.ts'

// swagger-ui sets style attributes; its icons are data URLs.
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** `validatorUrl: null` keeps swagger-ui from sending the description to another host. */
const START_SCRIPT = `SwaggerUIBundle({ url: '/openapi.json', dom_id: '#docs', validatorUrl: null, deepLinking: true, persistAuthorization: false })
`

/** Assets change only with a release. */
const ASSET_HEADERS = { 'cache-control': 'public, max-age=3600' }

/** The plugin that describes `routes`. The description is created at the first request. */
export function docsRoutes(routes: readonly AnyElysia[], info: ApiInfo) {
  let description: Promise<string> | undefined
  const hidden = { detail: { hide: true } }
  return new Elysia()
    .get(
      '/openapi.json',
      async () => {
        description ??= describeApi(routes, info)
        return new Response(await description, { headers: { 'content-type': 'application/json' } })
      },
      hidden,
    )
    .get(
      '/docs',
      () => htmlResponse(renderDocsPage(info.title), 200, { 'content-security-policy': CONTENT_SECURITY_POLICY }),
      hidden,
    )
    .get('/docs/start.js', () => assetResponse(START_SCRIPT, 'text/javascript; charset=utf-8'), hidden)
    .get('/docs/swagger-ui.js', () => assetResponse(Bun.file(uiScriptPath), 'text/javascript; charset=utf-8'), hidden)
    .get('/docs/swagger-ui.css', () => assetResponse(Bun.file(uiStylePath), 'text/css; charset=utf-8'), hidden)
}

const assetResponse = (content: string | Blob, contentType: string): Response =>
  new Response(content, { headers: { ...ASSET_HEADERS, 'content-type': contentType } })

const renderDocsPage = (title: string) => html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="docs"></div>
<noscript>This page needs JavaScript; <a href="/openapi.json">the description</a> does not.</noscript>
<script src="/docs/swagger-ui.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`
