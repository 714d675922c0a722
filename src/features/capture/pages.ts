/**
 * @module /dev/captured: captured mail for the eyes of a developer. Public, and it shows the mail of all accounts, so composition mounts it in
 * delivery mode `capture` only.
 */
import { Elysia } from 'elysia'
import { htmlResponse } from '#platform/http/html.ts'
import { CAPTURED_PATH, capturedListPage, capturedMessagePage, notCapturedPage } from './page.ts'
import { parseHead, parseMessage } from './parse.ts'
import { type CaptureStore, textOf } from './store.ts'

const MOST_LISTED = 50
const LOOPBACK_NAMES = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/
const hidden = { detail: { hide: true } }

export const capturedPages = (store: Pick<CaptureStore, 'list' | 'get'>) =>
  new Elysia()
    .onBeforeHandle(({ request }) => {
      // A page of another site whose name was made to point here (DNS rebinding) still carries that name.
      const { hostname } = new URL(request.url)
      if (!LOOPBACK_NAMES.test(hostname)) return htmlResponse(notCapturedPage(), 404)
      return undefined
    })
    .get(
      CAPTURED_PATH,
      async () => {
        const captures = store.list({ limit: MOST_LISTED })
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
        return htmlResponse(capturedMessagePage(capture, await parseMessage(capture.raw), textOf(capture.raw)))
      },
      hidden,
    )
