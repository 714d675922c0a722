/**
 * @module /dev/captured: shows captured mail to developers. The page is public and shows the mail of all accounts. It
 * is therefore mounted in delivery mode `capture` only, and answers only requests with a loopback host name and
 * without proxy headers. Cannot detect a proxy that uses a loopback name and adds no header, such as `proxy_pass
 * http://127.0.0.1:8080` of nginx without `proxy_set_header`.
 */
import { Elysia } from 'elysia'
import { htmlResponse } from '#platform/http/html.ts'
import { CAPTURED_PATH, capturedListPage, capturedMessagePage, notCapturedPage } from './page.ts'
import { parseHead, parseMessage } from './parse.ts'
import { type CaptureStore, decodeRaw } from './store.ts'

const MAX_LISTED = 50
const LOOPBACK_NAMES = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/
/** Headers that proxies, tunnels and content delivery networks add to forwarded requests. */
const PROXY_HEADERS = [
  'forwarded',
  'via',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-forwarded-port',
  'x-forwarded-server',
  'x-real-ip',
  'x-client-ip',
  'x-cluster-client-ip',
  'x-original-host',
  'true-client-ip',
  'cf-connecting-ip',
  'cf-ray',
  'fastly-client-ip',
  'tailscale-user-login',
] as const
const hidden = { detail: { hide: true } }

export const capturedPages = (store: Pick<CaptureStore, 'list' | 'get'>) =>
  new Elysia()
    .onBeforeHandle(({ request }) => {
      // Checks the host name: after DNS rebinding, a page of another site still sends its own.
      const { hostname } = new URL(request.url)
      // A proxy or tunnel on this machine also connects from loopback; most are recognisable by the headers they add.
      const isLocal = LOOPBACK_NAMES.test(hostname) && !PROXY_HEADERS.some((name) => request.headers.has(name))
      return isLocal ? undefined : htmlResponse(notCapturedPage(), 404)
    })
    .get(
      CAPTURED_PATH,
      async () => {
        const captures = store.list({ limit: MAX_LISTED })
        const rows = captures.map(async (capture) => ({ envelope: capture, head: await parseHead(capture.head) }))
        return htmlResponse(capturedListPage(await Promise.all(rows)))
      },
      hidden,
    )
    .get(
      `${CAPTURED_PATH}/:recipient`,
      async ({ params }) => {
        const capture = /^\d{1,15}$/.test(params.recipient) ? store.get(Number(params.recipient)) : undefined
        if (!capture) return htmlResponse(notCapturedPage(), 404)
        return htmlResponse(capturedMessagePage(capture, await parseMessage(capture.raw), decodeRaw(capture.raw)))
      },
      hidden,
    )
