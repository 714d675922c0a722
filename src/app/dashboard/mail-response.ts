/** @module HTML whose author is not trusted, as a page for a frame of the dashboard. */
import { UNLISTED_HEADERS } from '#platform/http/html.ts'

/** Only our own pages may frame it. */
const toContentSecurityPolicy = (hasPictures: boolean): string =>
  [
    'sandbox',
    "default-src 'none'",
    "style-src 'unsafe-inline'",
    `img-src data:${hasPictures ? ' https: http:' : ''}`,
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'self'",
  ].join('; ')

/**
 * The policy cannot stop `link` from opening connections, nor `meta` from relaxing the referrer policy, nor both in a
 * document inside this one.
 */
const RESOURCE_TAG = /<(?:link|meta|base|i?frame|object|embed)(?=[\s/>])/gi

/** Turns tags that could open connections into `basefont`, which browsers ignore and which has no end tag either. */
const disableResourceTags = (html: string): string => html.replace(RESOURCE_TAG, '<basefont')

/**
 * A page for a frame of the dashboard: it runs no script, submits no form, opens no window, and loads nothing but, on
 * request, pictures.
 */
export const toMailResponse = (html: string, status: number, hasPictures = false): Response =>
  new Response(disableResourceTags(html), {
    status,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': toContentSecurityPolicy(hasPictures),
      'x-frame-options': 'SAMEORIGIN',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
      'x-dns-prefetch-control': 'off',
      'cross-origin-resource-policy': 'same-origin',
      ...UNLISTED_HEADERS,
    },
  })
