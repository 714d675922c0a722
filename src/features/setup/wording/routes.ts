/** @module /v1/account/wording and /v1/account/logo; /t/logo: logos of accounts, for mails and pages. */
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { findTrackingHostAccount, getPublicHost } from '#features/setup/domains/tracking-domain.ts'
import { errorResponses } from '#platform/http/access.ts'
import { acceptsBody } from '#platform/http/body.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { DataBody } from '#platform/http/schemas.ts'
import { KiB } from '#platform/units.ts'
import { MAX_LOGO_BYTES, MAX_UPLOAD_PIXELS, readLogo } from './logo.ts'
import { toWordingWire, WordingChangeBody, WordingRecord } from './model.ts'
import { DEFAULT_TEXTS } from './texts.ts'
import { changeLogo, changeWording, deleteWording, findLogo, LOGO_PATH, readWording, type Wording } from './wording.ts'

const tags = ['Account']
const reads = describeWith('account:read')
const administers = describeWith('account:admin')

/** @param publicUrl without trailing slashes */
export const wordingRoutes = (app: App, publicUrl: string) => {
  const toBody = (wording: Wording) => dataBody({ ...toWordingWire(wording, publicUrl), defaults: DEFAULT_TEXTS })
  const read = ({ accountId }: Actor) => toBody(readWording(app.db, accountId))
  return new Elysia({ prefix: '/v1/account', tags })
    .use(authenticated)
    .get('/wording', ({ actor }) => read(actor), {
      response: DataBody(WordingRecord),
      detail: reads(
        'Get the wording',
        "The account's own name, logo and texts of confirmation mails, confirmation pages and unsubscribe pages.",
      ),
    })
    .patch('/wording', async ({ actor, body }) => toBody(await changeWording(app, actor, body)), {
      body: WordingChangeBody,
      response: DataBody(WordingRecord),
      detail: administers(
        'Change the wording',
        'A text that is missing is ours, in the same language. Buttons, links and our sentences about the address, the list and the sender always stay. Texts are plain text.',
        errorResponses({ 422: ['unknown_placeholder', 'A text has a placeholder that cannot be used there.'] }),
      ),
    })
    .delete('/wording', ({ actor }) => deleteWording(app, actor), {
      detail: administers('Delete the wording', 'Name, logo and texts: everything is ours again.'),
    })
    .put('/logo', async ({ actor, body }) => toBody(await changeLogo(app, actor, await readLogo(body, app.memory))), {
      response: DataBody(WordingRecord),
      detail: administers(
        'Set the logo',
        `The bytes of a PNG, JPEG or WebP file, at most ${MAX_LOGO_BYTES / KiB} KiB and ${MAX_UPLOAD_PIXELS} pixels in each direction; its content decides, not its Content-Type. It is stored as PNG or JPEG with at most 480 by 192 pixels, without anything else that was in the file. Mail that was sent with another logo shows the name in its place.`,
        {
          ...acceptsBody('bytes'),
          ...errorResponses({
            413: ['logo_too_large', 'The file is too large.'],
            422: ['invalid_logo', 'The file is no PNG, JPEG or WebP, has too many pixels, or is damaged.'],
          }),
          requestBody: {
            required: true,
            content: Object.fromEntries(
              ['image/png', 'image/jpeg', 'image/webp'].map((type) => [
                type,
                { schema: { type: 'string', format: 'binary' } },
              ]),
            ),
          },
        },
      ),
    })
    .delete('/logo', async ({ actor }) => void (await changeLogo(app, actor, null)), {
      detail: administers('Delete the logo', 'Mails and pages show the name instead.'),
    })
}

const HEADERS = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; sandbox",
  // Webmail that isolates itself (COEP) shows images of other sites only with this header.
  'cross-origin-resource-policy': 'cross-origin',
  'x-robots-tag': 'noindex, nofollow',
}

/**
 * Public, and the same for every reader: a request says nothing about who reads. Under the tracking host of an account
 * there is only its own logo.
 */
export function logoPages(app: App) {
  const ownHost = getPublicHost(app.config)
  return new Elysia().get(
    `${LOGO_PATH}/:hash`,
    ({ params, request }) => {
      const { hostname } = new URL(request.url)
      const holder = hostname === ownHost ? undefined : findTrackingHostAccount(app.db, hostname)
      const logo = findLogo(app.db, params.hash, holder)
      if (!logo)
        return new Response('There is no such logo.\n', {
          status: 404,
          headers: { ...HEADERS, 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' },
        })
      return new Response(new Uint8Array(logo.bytes), {
        headers: {
          ...HEADERS,
          'content-type': logo.type,
          'cache-control': 'public, max-age=31536000, immutable',
        },
      })
    },
    { detail: { hide: true } },
  )
}
