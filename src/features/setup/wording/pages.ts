/**
 * @module /t/logo: logos of accounts, for mails and pages. Public, and the same for every reader: a request says nothing
 * about who reads. Under the tracking host of an account there is only its own logo.
 */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { findTrackingHostAccount, getPublicHost } from '#features/setup/domains/tracking-domain.ts'
import { findLogo, LOGO_PATH } from './wording.ts'

const HEADERS = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; sandbox",
  // Webmail that isolates itself (COEP) shows images of other sites only with this header.
  'cross-origin-resource-policy': 'cross-origin',
  'x-robots-tag': 'noindex, nofollow',
}

/** The plugin of /t/logo. */
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
