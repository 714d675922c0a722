import { expect, test } from 'bun:test'
import { findNearestRoute } from '#platform/http/route-table.ts'

const PATTERNS = [
  '/v1/emails',
  '/v1/emails/:id',
  '/v1/emails/:id/cancel',
  '/v1/contact-lists',
  '/v1/domains/:id/verify',
  '/v1/api-keys',
]

test.each([
  ['/v1/email', '/v1/emails'],
  ['/v1/emials', '/v1/emails'],
  ['/v1/Emails', '/v1/emails'],
  ['/emails', '/v1/emails'],
  ['/api/v1/emails/', '/v1/emails'],
  ['/api/emails', '/v1/emails'],
  ['/v1/contact_lists', '/v1/contact-lists'],
  ['/v1/contactlists', '/v1/contact-lists'],
  ['/v1/apikeys', '/v1/api-keys'],
  ['/v1/email/0198a3c6-0000-7000-8000-000000000000', '/v1/emails/{id}'],
  ['/v1/emails/1/cancle', '/v1/emails/{id}/cancel'],
  ['/v1/domain/1/verify', '/v1/domains/{id}/verify'],
  ['/v1/nothing', undefined],
  ['/v1', undefined],
  ['/', undefined],
  ['/wp-login.php', undefined],
  [`/v1/${'emails/'.repeat(10_000)}`, undefined],
])('%s is probably %s', (path, route) => {
  expect(findNearestRoute(path, PATTERNS)).toBe(route)
})
