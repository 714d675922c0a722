/** @module /icon.svg: the icon of the service, an envelope, legible at 16 pixels. */
import { Elysia } from 'elysia'

const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0b57d0"/><path d="M7 10.5h18v11.5H7z" fill="none" stroke="#fff" stroke-width="2.4" stroke-linejoin="round"/><path d="m7.5 11.5 8.5 6.5 8.5-6.5" fill="none" stroke="#fff" stroke-width="2.4" stroke-linejoin="round"/></svg>
`

export const iconRoute = () =>
  new Elysia().get(
    '/icon.svg',
    () =>
      new Response(ICON, {
        headers: {
          'content-type': 'image/svg+xml',
          'cache-control': 'public, max-age=86400',
          // An SVG opened as a page can run scripts; this one has none.
          'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
        },
      }),
    { detail: { hide: true } },
  )
