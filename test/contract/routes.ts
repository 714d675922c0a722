/**
 * @module Every route of the API as the contract defines it: the required scope, a valid request, the success status
 * and the response shape. The matrices iterate over this table and fail when it lacks a route of the service, so add a
 * new route here first.
 */
import { expect } from 'bun:test'
import { createRoutes, DIALECTS } from '#app/http.ts'
import type { Actor } from '#features/core/app/app.ts'
import { record } from '#features/core/events/record.ts'
import { storeInsight } from '#features/reporting/insights/insights.ts'
import { writeOutcome } from '#features/sending/delivery/verdict/outcome.ts'
import { getRouteWebhook } from '#features/webhooks/inbound-routes/inbound-routes.ts'
import { sendTestEvent } from '#features/webhooks/webhooks/history/replay.ts'
import { sha256 } from '#platform/crypto/crypto.ts'
import { formatUuid, newUuid, parseUuid } from '#platform/ids.ts'
import { hours } from '#platform/units.ts'
import { postFile } from '#test/features/audience/contact-lists/files.ts'
import { RED_PIXEL } from '#test/features/setup/wording/logos.ts'
import { type ApiOptions, type ApiResponse, at } from '#test/support/api.ts'
import { createEmailApi, EMAIL, type EmailApi, UNVERIFIED } from '#test/support/email-api.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import { claimDueTo } from '#test/support/lanes.ts'
import { llmSettings, replyWith, startLlmStub } from '#test/support/llm-stub.ts'
import { deliverMessage, getTestMailbox as testMailbox } from '#test/support/mailboxes.ts'
import { startStripeStub, stripeSettings } from '#test/support/stripe-stub.ts'
import { startUpdateServer, type UpdateServer } from '#test/support/update-server.ts'
import { createTestUser } from '#test/support/users.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** The kind of resource that the id of a path names. */
export type Resource =
  | 'api-key'
  | 'broadcast'
  | 'captured-email'
  | 'contact'
  | 'contact-import'
  | 'contact-list'
  | 'dead-letter'
  | 'draft-sequence'
  | 'domain'
  | 'email'
  | 'deferred-email'
  | 'draft'
  | 'ended-email'
  | 'inbound-email'
  | 'inbound-route'
  | 'inbound-route-delivery'
  | 'invitation'
  | 'insight'
  | 'leased-message'
  | 'log-entry'
  | 'mailbox'
  | 'mailbox-message'
  | 'mailbox-thread'
  | 'member'
  | 'newsletter'
  | 'operation'
  | 'paused-broadcast'
  | 'pending-contact'
  | 'sequence'
  | 'signup-form'
  | 'stream'
  | 'sub-account'
  | 'suppression'
  | 'template'
  | 'tracking-domain'
  | 'webhook'
  | 'webhook-delivery'
  | 'webhook-event'

/** Resources whose lists have rows. */
export const LISTED: readonly Resource[] = [
  'api-key',
  'broadcast',
  'captured-email',
  'contact-list',
  'dead-letter',
  'domain',
  'email',
  'inbound-email',
  'inbound-route',
  'insight',
  'invitation',
  'log-entry',
  'mailbox',
  'member',
  'newsletter',
  'operation',
  'sequence',
  'signup-form',
  'stream',
  'sub-account',
  'suppression',
  'template',
  'webhook',
]

export interface Route {
  readonly method: Method
  /** With `{id}` for the id of `resource`. */
  readonly path: string
  readonly scope: string
  /** A second required scope. */
  readonly alsoScope?: string
  /** Only owners may use it; for a key the scope is enough. */
  readonly ownersOnly?: true
  readonly resource?: Resource
  /** Returns a valid body, a different one at each call. */
  readonly body?: () => unknown
  readonly status: 200 | 201 | 202 | 204
  /** Top-level keys of the response: `data` alone, a page, or as listed. */
  readonly shape: 'one' | 'list' | 'none' | readonly string[]
  /**
   * Returns a CSV or other file as the body, a different one at each call; `answer`: the response, not the request, is
   * CSV or another file.
   */
  readonly csv?: (() => string | Uint8Array<ArrayBuffer>) | 'answer'
  /** True where an unknown or foreign id gets the same response as an id of the account, and nothing happens. */
  readonly isUnknownFine?: boolean
  /** True where `data` is one object although there are other top-level keys. */
  readonly isOne?: boolean
  /** True where every field of the body is optional. */
  readonly isBodyOptional?: boolean
  /** Required headers. */
  readonly headers?: Readonly<Record<string, string>>
  /** True where a success deletes the caller's account: the success is then tested with a key of a separate account. */
  readonly endsAccount?: boolean
  /** False for a list that is always one page. */
  readonly paged?: boolean
}

let createdCount = 0
const unique = (name: string): string => `${name}-${++createdCount}`

const subAccount = () => ({
  name: unique('Shop'),
  email: `${unique('owner')}@shop.test`,
  password: 'four words that fit',
  monthly_quota: 100,
})

/** An address where nothing listens: the host is an IP address, so no name is resolved, and nothing is sent there. */
const WEBHOOK = { url: 'https://127.0.0.1/events', events: ['sent', 'bounced'] }

/** A domain of the first account; each of its routes has its own pattern. */
let routedDomain = ''
const inboundRoute = () => ({
  domain_id: routedDomain,
  pattern: unique('support'),
  match_type: 'exact',
  webhook_url: WEBHOOK.url,
})

const template = () => ({ alias: unique('template'), name: 'A template', subject: 'Hello', text_body: 'Hello.' })

/** Lists of the first account without a form: a list can have only one form, and the body is created synchronously. */
let formlessLists: string[] = []
const signupForm = () => ({ list_id: formlessLists.pop() ?? 'none is left', title: unique('Form') })

/** A contact list of the first account, with one contact, to which broadcasts and newsletters are sent. */
let mailedList = ''
const broadcast = () => ({
  contact_list_id: mailedList,
  from_address: EMAIL.from,
  subject: unique('News'),
  text_body: 'Hello.',
})
const sequence = () => ({ name: unique('Sequence'), from: EMAIL.from, event: unique('event') })
const newsletter = () => ({ list_id: mailedList, from_address: EMAIL.from, subject: unique('News'), text_body: 'Hi.' })

/** Token of the last leased message. */
let leaseToken = ''

const INSIGHT_FIELDS = [
  'account_id',
  'acknowledged_at',
  'findings',
  'generated_at',
  'id',
  'input_tokens',
  'model',
  'output_tokens',
  'period_end',
  'period_start',
  'raw_markdown',
  'summary',
]

const get = (path: string, scope: string, more: Partial<Route> = {}): Route => ({
  method: 'GET',
  path,
  scope,
  status: 200,
  shape: 'one',
  ...more,
})
const listRoute = (path: string, scope: string, more: Partial<Route> = {}): Route =>
  get(path, scope, { shape: 'list', paged: true, ...more })
const deleteRoute = (path: string, scope: string, resource: Resource): Route => ({
  method: 'DELETE',
  path,
  scope,
  resource,
  status: 204,
  shape: 'none',
})

export const ROUTES: readonly Route[] = [
  listRoute('/v1/accounts', 'sub_accounts:manage'),
  {
    ...get('/v1/accounts', 'sub_accounts:manage', { status: 201, alsoScope: 'account:admin' }),
    method: 'POST',
    body: subAccount,
  },
  get('/v1/accounts/{id}', 'sub_accounts:manage', { resource: 'sub-account' }),
  {
    ...get('/v1/accounts/{id}', 'sub_accounts:manage', { resource: 'sub-account' }),
    method: 'PATCH',
    body: () => ({ name: unique('Shop') }),
  },
  {
    ...get('/v1/accounts/{id}', 'sub_accounts:manage', { resource: 'sub-account', status: 202 }),
    method: 'DELETE',
  },
  get('/v1/accounts/{id}/analytics', 'sub_accounts:manage', {
    resource: 'sub-account',
    shape: ['data', 'period'],
    isOne: true,
  }),
  {
    ...get('/v1/accounts/{id}/api-keys', 'sub_accounts:manage', { resource: 'sub-account', status: 201 }),
    method: 'POST',
    body: () => ({ name: unique('key'), scopes: ['sub_accounts:manage'] }),
  },
  get('/v1/account', 'account:read'),
  get('/v1/account/export', 'account:admin', { shape: ['data', 'exported_at'], isOne: true }),
  get('/v1/gdpr/export?email=ben@receiver.test', 'account:admin', { shape: ['data', 'exported_at'], isOne: true }),
  {
    ...get('/v1/gdpr/erase?email=nobody@receiver.test', 'account:admin', {
      shape: ['data', 'operation_id'],
      isOne: true,
    }),
    method: 'DELETE',
  },
  {
    ...get('/v1/account', 'account:admin'),
    method: 'DELETE',
    status: 202,
    ownersOnly: true,
    headers: { 'x-confirm-delete': 'DELETE' },
    endsAccount: true,
  },
  {
    ...get('/v1/account', 'account:admin'),
    method: 'PATCH',
    body: () => ({ name: unique('Name') }),
  },
  get('/v1/account/wording', 'account:read'),
  {
    ...get('/v1/account/wording', 'account:admin'),
    method: 'PATCH',
    body: () => ({ name: unique('Name'), texts: { de: { confirm_button: 'Ja', mail_intro: null } } }),
  },
  { ...get('/v1/account/wording', 'account:admin', { status: 204, shape: 'none' }), method: 'DELETE' },
  { ...get('/v1/account/logo', 'account:admin'), method: 'PUT', csv: () => RED_PIXEL },
  { ...get('/v1/account/logo', 'account:admin', { status: 204, shape: 'none' }), method: 'DELETE' },
  listRoute('/v1/agent-mailboxes', 'mailboxes:read'),
  {
    ...get('/v1/agent-mailboxes', 'mailboxes:write', { status: 201 }),
    method: 'POST',
    body: () => ({ local_part: unique('mailbox') }),
    isBodyOptional: true,
  },
  get('/v1/agent-mailboxes/{id}', 'mailboxes:read', { resource: 'mailbox' }),
  {
    ...get('/v1/agent-mailboxes/{id}', 'mailboxes:write', { resource: 'mailbox' }),
    method: 'PATCH',
    body: () => ({ drafts: true }),
  },
  deleteRoute('/v1/agent-mailboxes/{id}', 'mailboxes:write', 'mailbox'),
  get('/v1/agent-mailboxes/{id}/analytics', 'mailboxes:read', { resource: 'mailbox' }),
  get('/v1/agent-mailboxes/{id}/auto-responder', 'mailboxes:read', { resource: 'mailbox' }),
  {
    ...get('/v1/agent-mailboxes/{id}/auto-responder', 'mailboxes:write', {
      alsoScope: 'emails:send',
      resource: 'mailbox',
    }),
    method: 'PATCH',
    body: () => ({ enabled: false }),
  },
  listRoute('/v1/agent-mailboxes/{id}/contacts', 'mailboxes:read', { resource: 'mailbox', paged: false }),
  listRoute('/v1/agent-mailboxes/{id}/messages', 'mailboxes:read', { resource: 'mailbox', paged: false }),
  get('/v1/agent-mailboxes/{id}/messages/next', 'mailboxes:write', {
    alsoScope: 'mailboxes:read',
    resource: 'mailbox',
    shape: ['data', 'lease_expires_at', 'lease_token'],
    isOne: true,
  }),
  listRoute('/v1/agent-mailboxes/{id}/messages/search?q=hello', 'mailboxes:read', {
    resource: 'mailbox',
    paged: false,
  }),
  get('/v1/agent-mailboxes/{id}/messages/{mid}', 'mailboxes:read', { resource: 'mailbox-message' }),
  deleteRoute('/v1/agent-mailboxes/{id}/messages/{mid}', 'mailboxes:write', 'mailbox-message'),
  {
    ...deleteRoute('/v1/agent-mailboxes/{id}/messages/{mid}/ack', 'mailboxes:write', 'leased-message'),
    method: 'POST',
    body: () => ({ lease_token: leaseToken }),
  },
  listRoute('/v1/agent-mailboxes/{id}/messages/{mid}/attachments', 'mailboxes:read', {
    resource: 'mailbox-message',
    paged: false,
  }),
  get('/v1/agent-mailboxes/{id}/messages/{mid}/attachments/{n}', 'mailboxes:read', {
    resource: 'mailbox-message',
    csv: 'answer',
    shape: 'none',
  }),
  {
    ...get('/v1/agent-mailboxes/{id}/messages/{mid}/labels', 'mailboxes:write', {
      alsoScope: 'mailboxes:read',
      resource: 'mailbox-message',
    }),
    method: 'PUT',
    body: () => ({ labels: [unique('label')] }),
  },
  {
    ...deleteRoute('/v1/agent-mailboxes/{id}/messages/{mid}/nack', 'mailboxes:write', 'leased-message'),
    method: 'POST',
    body: () => ({ lease_token: leaseToken }),
  },
  get('/v1/agent-mailboxes/{id}/messages/{mid}/raw', 'mailboxes:read', {
    resource: 'mailbox-message',
    csv: 'answer',
    shape: 'none',
  }),
  {
    ...get('/v1/agent-mailboxes/{id}/messages/{mid}/reply', 'mailboxes:write', {
      alsoScope: 'emails:send',
      resource: 'mailbox-message',
      status: 201,
    }),
    method: 'POST',
    body: () => ({ text_body: 'Thank you.' }),
  },
  listRoute('/v1/agent-mailboxes/{id}/threads', 'mailboxes:read', { resource: 'mailbox', paged: false }),
  get('/v1/agent-mailboxes/{id}/threads/{tid}', 'mailboxes:read', {
    resource: 'mailbox-thread',
    shape: ['data', 'pagination', 'thread'],
  }),
  listRoute('/v1/api-keys', 'account:admin', { paged: false }),
  {
    ...get('/v1/api-keys', 'account:admin'),
    method: 'POST',
    body: () => ({ name: unique('key'), scopes: ['account:admin'] }),
    status: 201,
  },
  {
    ...get('/v1/api-keys/{id}', 'account:admin', { resource: 'api-key' }),
    method: 'PATCH',
    body: () => ({ name: unique('key') }),
  },
  deleteRoute('/v1/api-keys/{id}', 'account:admin', 'api-key'),
  listRoute('/v1/audit-logs', 'account:read'),
  {
    ...get('/v1/billing/checkout', 'account:admin', { ownersOnly: true }),
    method: 'POST',
    body: () => ({ plan: 'pro', success_url: 'https://app.test/paid', cancel_url: 'https://app.test/not' }),
  },
  {
    ...get('/v1/billing/portal', 'account:admin', { ownersOnly: true }),
    method: 'POST',
    body: () => ({ return_url: 'https://app.test/account' }),
  },
  get('/v1/billing/subscription', 'account:read'),
  listRoute('/v1/contact-lists', 'contacts:read'),
  {
    ...get('/v1/contact-lists', 'contacts:write', { status: 201 }),
    method: 'POST',
    body: () => ({ name: unique('List') }),
  },
  get('/v1/contact-lists/{id}', 'contacts:read', { resource: 'contact-list' }),
  {
    ...get('/v1/contact-lists/{id}', 'contacts:write', { resource: 'contact-list' }),
    method: 'PUT',
    body: () => ({ name: unique('List') }),
  },
  deleteRoute('/v1/contact-lists/{id}', 'contacts:write', 'contact-list'),
  listRoute('/v1/contact-lists/{id}/contacts', 'contacts:read', { resource: 'contact-list', paged: false }),
  {
    ...get('/v1/contact-lists/{id}/contacts', 'contacts:write', { resource: 'contact-list', status: 201 }),
    method: 'POST',
    body: () => ({ email: `${unique('contact')}@receiver.test` }),
  },
  get('/v1/contact-lists/{id}/contacts/{email}', 'contacts:read', { resource: 'contact' }),
  {
    ...get('/v1/contact-lists/{id}/contacts/{email}', 'contacts:write', { resource: 'contact' }),
    method: 'PATCH',
    body: () => ({ metadata: { name: unique('Name') } }),
  },
  deleteRoute('/v1/contact-lists/{id}/contacts/{email}', 'contacts:write', 'contact'),
  {
    ...get('/v1/contact-lists/{id}/contacts/{email}/confirmation', 'contacts:write', {
      resource: 'pending-contact',
      status: 202,
    }),
    method: 'POST',
  },
  get('/v1/contact-lists/{id}/contacts/export', 'contacts:read', {
    resource: 'contact-list',
    csv: 'answer',
    shape: 'none',
  }),
  {
    ...get('/v1/contact-lists/{id}/contacts/import', 'contacts:write', { resource: 'contact-list', status: 202 }),
    method: 'POST',
    csv: () => `email\n${unique('imported')}@receiver.test\n`,
  },
  {
    ...get('/v1/contact-lists/{id}/contacts/import/preview', 'contacts:write', { resource: 'contact-list' }),
    method: 'POST',
    csv: () => `email\n${unique('imported')}@receiver.test\n`,
  },
  listRoute('/v1/contact-lists/{id}/imports', 'contacts:read', {
    resource: 'contact-list',
    paged: false,
    shape: ['data'],
  }),
  {
    ...get('/v1/contact-lists/{id}/imports/{operation_id}/cancel', 'contacts:write', { resource: 'contact-import' }),
    method: 'POST',
  },
  get('/v1/contact-lists/{id}/recipients', 'contacts:read', { resource: 'contact-list' }),
  get('/v1/dead-letters', 'emails:read', { shape: ['data', 'total'] }),
  deleteRoute('/v1/dead-letters/{id}', 'emails:send', 'dead-letter'),
  {
    ...get('/v1/dead-letters/{id}/retry', 'emails:send', { resource: 'dead-letter', shape: ['message'] }),
    method: 'POST',
  },
  listRoute('/v1/domains', 'domains:read'),
  {
    ...get('/v1/domains', 'domains:write', { status: 201 }),
    method: 'POST',
    body: () => ({ domain: `${unique('domain')}.test` }),
  },
  get('/v1/domains/{id}', 'domains:read', { resource: 'domain' }),
  get('/v1/domains/{id}/dns', 'domains:read', { resource: 'domain' }),
  get('/v1/domains/{id}/reports', 'domains:read', { resource: 'domain' }),
  get('/v1/domains/{id}/rules', 'domains:read', { resource: 'domain' }),
  get('/v1/domains/{id}/zone-file', 'domains:read', { resource: 'domain', csv: 'answer', shape: 'none' }),
  {
    ...get('/v1/domains/{id}', 'domains:write', { resource: 'domain' }),
    method: 'PATCH',
    body: () => ({ inbound_enabled: true }),
  },
  deleteRoute('/v1/domains/{id}', 'domains:write', 'domain'),
  get('/v1/domains/{id}/publish', 'domains:read', { resource: 'domain' }),
  {
    ...get('/v1/domains/{id}/publish', 'domains:write', { resource: 'domain' }),
    method: 'POST',
    body: () => ({ provider: 'rfc2136', credentials: updateServer?.credentials ?? {}, dry_run: true }),
  },
  deleteRoute('/v1/domains/{id}/publish', 'domains:write', 'domain'),
  { ...get('/v1/domains/{id}/verify', 'domains:write', { resource: 'domain' }), method: 'POST' },
  { ...get('/v1/domains/{id}/rotate-dkim', 'domains:write', { resource: 'domain' }), method: 'POST' },
  {
    ...get('/v1/domains/{id}/tracking-domain', 'domains:write', { resource: 'domain' }),
    method: 'PUT',
    body: () => ({ tracking_domain: `links.${unique('host')}.test` }),
    shape: ['cname_target', 'data'],
    isOne: true,
  },
  { ...get('/v1/domains/{id}/tracking-domain', 'domains:write', { resource: 'tracking-domain' }), method: 'DELETE' },
  {
    ...get('/v1/domains/{id}/verify-tracking', 'domains:write', { resource: 'tracking-domain' }),
    method: 'POST',
    shape: ['data', 'tracking_check'],
    isOne: true,
  },
  listRoute('/v1/emails', 'emails:read'),
  get('/v1/search?q=bob', 'emails:read'),
  { ...get('/v1/emails', 'emails:send', { status: 202 }), method: 'POST', body: () => EMAIL },
  {
    ...get('/v1/emails/batch', 'emails:send', { status: 202, shape: ['data', 'errors', 'operation_id'] }),
    method: 'POST',
    body: () => ({ emails: [EMAIL, {}] }),
  },
  { ...get('/v1/emails/check', 'emails:send'), method: 'POST', body: () => EMAIL },
  {
    ...get('/v1/emails/broadcast', 'emails:send', { status: 202, alsoScope: 'contacts:read' }),
    method: 'POST',
    body: broadcast,
  },
  get('/v1/emails/{id}', 'emails:read', { resource: 'email' }),
  get('/v1/account/reputation', 'account:read'),
  get('/v1/emails/{id}/captured', 'emails:read', { resource: 'captured-email' }),
  listRoute('/v1/captured-emails', 'emails:read'),
  { ...get('/v1/captured-emails', 'emails:send'), method: 'DELETE' },
  get('/v1/captured-emails/{id}', 'emails:read', { resource: 'captured-email' }),
  {
    ...get('/v1/captured-emails/{id}', 'emails:send', { resource: 'captured-email' }),
    method: 'PATCH',
    body: () => ({ read: true }),
  },
  deleteRoute('/v1/captured-emails/{id}', 'emails:send', 'captured-email'),
  get('/v1/captured-emails/{id}/attachments/{n}', 'emails:read', {
    resource: 'captured-email',
    csv: 'answer',
    shape: 'none',
  }),
  { ...get('/v1/captured-emails/{id}/check-links', 'emails:send', { resource: 'captured-email' }), method: 'POST' },
  listRoute('/v1/emails/{id}/links', 'emails:read', { resource: 'email', paged: false }),
  { ...get('/v1/emails/{id}/cancel', 'emails:send', { resource: 'email' }), method: 'POST' },
  {
    ...get('/v1/emails/{id}', 'emails:send', { resource: 'email' }),
    method: 'PATCH',
    body: () => ({ send_at: null }),
  },
  {
    ...get('/v1/emails/{id}/resend', 'emails:send', { resource: 'ended-email', status: 202 }),
    method: 'POST',
    body: () => ({ to: [EMAIL.to] }),
    isBodyOptional: true,
  },
  { ...get('/v1/emails/{id}/retry', 'emails:send', { resource: 'deferred-email' }), method: 'POST' },
  { ...get('/v1/emails/{id}/release', 'drafts:release', { resource: 'draft' }), method: 'POST' },
  listRoute('/v1/emails/{id}/attempts', 'emails:read', { resource: 'email', paged: false }),
  get('/v1/emails/{id}/source', 'emails:read', { resource: 'email' }),
  get('/v1/analytics/aggregate', 'analytics:read', {
    alsoScope: 'sub_accounts:manage',
    shape: ['data', 'period'],
    isOne: true,
  }),
  get('/v1/analytics/domains', 'analytics:read', { shape: ['data', 'period'] }),
  get('/v1/analytics/export', 'analytics:read', { csv: 'answer', shape: 'none' }),
  get('/v1/analytics/overview', 'analytics:read', { shape: ['data', 'period'], isOne: true }),
  get('/v1/analytics/timeseries', 'analytics:read', { shape: ['data', 'period'] }),
  get('/v1/events', 'emails:read', { shape: ['data', 'first_seq', 'last_seq', 'next_after'] }),
  listRoute('/v1/inbound-routes', 'inbound:read'),
  {
    ...get('/v1/inbound-routes', 'inbound:write', { status: 201, alsoScope: 'inbound:read' }),
    method: 'POST',
    body: inboundRoute,
  },
  get('/v1/inbound-routes/match?address=support@sender.test', 'inbound:read', { alsoScope: 'mailboxes:read' }),
  get('/v1/inbound-routes/{id}', 'inbound:read', { resource: 'inbound-route' }),
  {
    ...get('/v1/inbound-routes/{id}', 'inbound:write', { resource: 'inbound-route', alsoScope: 'inbound:read' }),
    method: 'PUT',
    body: () => ({ priority: 10 }),
  },
  deleteRoute('/v1/inbound-routes/{id}', 'inbound:write', 'inbound-route'),
  { ...get('/v1/inbound-routes/{id}/test', 'inbound:write', { resource: 'inbound-route' }), method: 'POST' },
  listRoute('/v1/inbound-routes/{id}/deliveries', 'inbound:read', { resource: 'inbound-route', paged: false }),
  {
    ...get('/v1/inbound-routes/{id}/deliveries/{delivery_id}/replay', 'inbound:write', {
      alsoScope: 'inbound:read',
      resource: 'inbound-route-delivery',
      status: 202,
    }),
    method: 'POST',
  },
  {
    ...get('/v1/inbound-routes/{id}/replay', 'inbound:write', {
      alsoScope: 'inbound:read',
      resource: 'inbound-route',
      status: 202,
    }),
    method: 'POST',
    body: () => ({ from_seq: 1 }),
  },
  {
    ...get('/v1/inbound-routes/{id}/replay/count', 'inbound:read', { resource: 'inbound-route' }),
    method: 'POST',
    body: () => ({ from_seq: 1 }),
  },
  listRoute('/v1/inbound', 'inbound:read'),
  get('/v1/inbound/{id}', 'inbound:read', { resource: 'inbound-email' }),
  deleteRoute('/v1/inbound/{id}', 'inbound:write', 'inbound-email'),
  get('/v1/inbound/{id}/raw', 'inbound:read', { resource: 'inbound-email', csv: 'answer', shape: 'none' }),
  listRoute('/v1/inbound/{id}/deliveries', 'inbound:read', { resource: 'inbound-email', paged: false }),
  listRoute('/v1/inbound/{id}/attachments', 'inbound:read', { resource: 'inbound-email', paged: false }),
  get('/v1/inbound/{id}/attachments/{n}', 'inbound:read', { resource: 'inbound-email', csv: 'answer', shape: 'none' }),
  listRoute('/v1/insights', 'account:admin'),
  get('/v1/insights/{id}', 'account:admin', { resource: 'insight' }),
  { ...get('/v1/insights/{id}/acknowledge', 'account:admin', { resource: 'insight' }), method: 'POST' },
  listRoute('/v1/logs', 'account:read'),
  get('/v1/logs/{id}', 'account:read', { resource: 'log-entry' }),
  {
    ...get('/v1/insights/generate', 'account:admin', { shape: INSIGHT_FIELDS }),
    method: 'POST',
  },
  listRoute('/v1/broadcasts', 'emails:read', { alsoScope: 'contacts:read' }),
  get('/v1/broadcasts/{id}', 'emails:read', { resource: 'broadcast', alsoScope: 'contacts:read' }),
  get('/v1/broadcasts/{id}/engagement', 'emails:read', { resource: 'broadcast' }),
  listRoute('/v1/sequences', 'contacts:read'),
  { ...get('/v1/sequences', 'contacts:write', { status: 201 }), method: 'POST', body: sequence },
  get('/v1/sequences/{id}', 'contacts:read', { resource: 'sequence' }),
  {
    // Changing an active one needs the scope to send, too.
    ...get('/v1/sequences/{id}', 'contacts:write', { resource: 'draft-sequence' }),
    method: 'PUT',
    body: () => ({ name: unique('Other sequence') }),
  },
  deleteRoute('/v1/sequences/{id}', 'contacts:write', 'sequence'),
  {
    ...get('/v1/sequences/events', 'emails:send', { alsoScope: 'contacts:write', status: 202 }),
    method: 'POST',
    body: () => ({ name: unique('event'), email: 'bob@receiver.test' }),
  },
  listRoute('/v1/sequences/{id}/people', 'contacts:read', { resource: 'sequence', paged: false }),
  listRoute('/v1/newsletters', 'contacts:read'),
  { ...get('/v1/newsletters', 'contacts:write', { status: 201 }), method: 'POST', body: newsletter },
  get('/v1/newsletters/{id}', 'contacts:read', { resource: 'newsletter' }),
  get('/v1/newsletters/{id}/preview', 'contacts:read', { resource: 'newsletter' }),
  {
    ...get('/v1/newsletters/{id}', 'contacts:write', { resource: 'newsletter' }),
    method: 'PUT',
    body: () => ({ subject: unique('Other news') }),
  },
  deleteRoute('/v1/newsletters/{id}', 'contacts:write', 'newsletter'),
  {
    ...get('/v1/newsletters/{id}/send', 'emails:send', { resource: 'newsletter', status: 202 }),
    alsoScope: 'contacts:read',
    method: 'POST',
    body: () => ({}),
    isBodyOptional: true,
  },
  listRoute('/v1/operations', 'emails:read'),
  get('/v1/operations/{id}', 'emails:read', { resource: 'operation' }),
  { ...get('/v1/operations/{id}/cancel', 'emails:send', { resource: 'broadcast' }), method: 'POST' },
  { ...get('/v1/operations/{id}/pause', 'emails:send', { resource: 'broadcast' }), method: 'POST' },
  { ...get('/v1/operations/{id}/resume', 'emails:send', { resource: 'paused-broadcast' }), method: 'POST' },
  listRoute('/v1/signup-forms', 'contacts:read'),
  { ...get('/v1/signup-forms', 'contacts:write', { status: 201 }), method: 'POST', body: signupForm },
  get('/v1/signup-forms/{id}', 'contacts:read', { resource: 'signup-form' }),
  {
    ...get('/v1/signup-forms/{id}', 'contacts:write', { resource: 'signup-form' }),
    method: 'PUT',
    body: () => ({ title: unique('Title') }),
  },
  deleteRoute('/v1/signup-forms/{id}', 'contacts:write', 'signup-form'),
  { ...get('/v1/signup-forms/{id}/toggle', 'contacts:write', { resource: 'signup-form' }), method: 'POST' },
  listRoute('/v1/streams', 'emails:read'),
  {
    ...get('/v1/streams', 'emails:send', { status: 201 }),
    method: 'POST',
    body: () => ({ slug: unique('stream'), name: 'A stream' }),
  },
  get('/v1/streams/{id}', 'emails:read', { resource: 'stream' }),
  {
    ...get('/v1/streams/{id}', 'emails:send', { resource: 'stream' }),
    method: 'PUT',
    body: () => ({ name: unique('Name') }),
  },
  deleteRoute('/v1/streams/{id}', 'emails:send', 'stream'),
  get('/v1/people/{address}', 'emails:read', {
    alsoScope: 'suppressions:read',
    resource: 'suppression',
    isUnknownFine: true,
  }),
  listRoute('/v1/suppressions', 'suppressions:read'),
  {
    ...get('/v1/suppressions', 'suppressions:write', { status: 201 }),
    method: 'POST',
    body: () => ({ email_address: `${unique('suppressed')}@receiver.test` }),
  },
  { ...deleteRoute('/v1/suppressions/{email}', 'suppressions:write', 'suppression'), isUnknownFine: true },
  get('/v1/suppressions/export', 'suppressions:read', { csv: 'answer', shape: 'none' }),
  {
    ...get('/v1/suppressions/import', 'suppressions:write', { shape: ['data', 'errors'], isOne: true }),
    method: 'POST',
    csv: () => `email_address\n${unique('imported')}@receiver.test\n`,
  },
  listRoute('/v1/team', 'account:read'),
  {
    ...get('/v1/team/members/{id}', 'account:admin', { resource: 'member' }),
    method: 'PATCH',
    body: () => ({ role: 'developer' }),
  },
  deleteRoute('/v1/team/members/{id}', 'account:admin', 'member'),
  listRoute('/v1/team/invitations', 'account:read'),
  {
    ...get('/v1/team/invitations', 'account:admin', { status: 201 }),
    method: 'POST',
    body: () => ({ email: `${unique('invited')}@receiver.test`, role: 'viewer' }),
  },
  deleteRoute('/v1/team/invitations/{id}', 'account:admin', 'invitation'),
  listRoute('/v1/templates', 'templates:read'),
  { ...get('/v1/templates', 'templates:write', { status: 201 }), method: 'POST', body: template },
  get('/v1/templates/{id}', 'templates:read', { resource: 'template' }),
  {
    ...get('/v1/templates/{id}', 'templates:write', { resource: 'template' }),
    method: 'PUT',
    body: () => ({ name: unique('Name') }),
  },
  deleteRoute('/v1/templates/{id}', 'templates:write', 'template'),
  {
    ...get('/v1/templates/{id}/render', 'templates:read', { resource: 'template' }),
    method: 'POST',
    body: () => ({ template_data: { name: 'Ada' } }),
    isBodyOptional: true,
  },
  listRoute('/v1/templates/{id}/versions', 'templates:read', { resource: 'template', paged: false }),
  get('/v1/templates/{id}/versions/{version}', 'templates:read', { resource: 'template' }),
  {
    ...get('/v1/templates/{id}/versions/{version}/restore', 'templates:write', { resource: 'template' }),
    method: 'POST',
    body: () => ({}),
    isBodyOptional: true,
  },
  {
    ...get('/v1/templates/render', 'templates:read'),
    method: 'POST',
    body: () => ({ subject: unique('Subject') }),
  },
  {
    ...get('/v1/validate', 'emails:read', {
      shape: ['deliverable', 'email', 'is_disposable', 'is_free', 'is_role', 'mx_found', 'reason', 'valid'],
    }),
    method: 'POST',
    body: () => ({ email: `no ${unique('address')}` }),
  },
  listRoute('/v1/webhooks', 'webhooks:read'),
  { ...get('/v1/webhooks', 'webhooks:write', { status: 201 }), method: 'POST', body: () => WEBHOOK },
  get('/v1/webhook-payloads/{id}', 'webhooks:read', { resource: 'webhook-event', alsoScope: 'emails:read' }),
  get('/v1/webhooks/{id}', 'webhooks:read', { resource: 'webhook' }),
  {
    ...get('/v1/webhooks/{id}', 'webhooks:write', { resource: 'webhook' }),
    method: 'PUT',
    body: () => ({ ...WEBHOOK, is_active: true }),
  },
  deleteRoute('/v1/webhooks/{id}', 'webhooks:write', 'webhook'),
  { ...get('/v1/webhooks/{id}/test', 'webhooks:write', { resource: 'webhook' }), method: 'POST' },
  listRoute('/v1/webhooks/{id}/deliveries', 'webhooks:read', { resource: 'webhook', paged: false }),
  {
    ...get('/v1/webhooks/{id}/deliveries/{delivery_id}/replay', 'webhooks:write', {
      resource: 'webhook-delivery',
      status: 202,
    }),
    method: 'POST',
  },
  {
    ...get('/v1/webhooks/{id}/replay', 'webhooks:write', { resource: 'webhook', status: 202 }),
    method: 'POST',
    body: () => ({ from_seq: 1 }),
  },
  {
    ...get('/v1/webhooks/{id}/replay/count', 'webhooks:read', { resource: 'webhook' }),
    method: 'POST',
    body: () => ({ from_seq: 1 }),
  },
  get('/v1/webhooks/{id}/deliveries/{delivery_id}', 'webhooks:read', {
    resource: 'webhook-delivery',
    alsoScope: 'emails:read',
  }),
]

/** Routes for signed-in users; a key gets a 403. */
export const SESSION_ROUTES: readonly string[] = [
  'POST /v1/auth/logout',
  'GET /v1/auth/session',
  'PUT /v1/auth/session',
  'GET /v1/auth/sessions',
  'DELETE /v1/auth/sessions',
  'DELETE /v1/auth/sessions/{id}',
  'PUT /v1/auth/password',
  'POST /v1/auth/totp',
  'POST /v1/auth/totp/confirm',
  'POST /v1/auth/totp/recovery-codes',
  'DELETE /v1/auth/totp',
  'POST /v1/auth/session/password',
  'POST /v1/auth/session/code',
  'POST /v1/auth/session/passkey',
  'GET /v1/auth/passkeys',
  'POST /v1/auth/passkeys',
  'POST /v1/auth/passkeys/options',
  'DELETE /v1/auth/passkeys/{id}',
  'POST /v1/domains/{id}/test-email',
  'POST /v1/newsletters/{id}/test-email',
  'POST /v1/inbound-routes/secret/reveal',
  'POST /v1/inbound-routes/secret/rotate',
  'POST /v1/webhooks/{id}/secret/reveal',
  'POST /v1/webhooks/{id}/secret/rotate',
  'GET /v1/operator/health',
  'GET /v1/operator/queue',
  'GET /v1/operator/queue/recipients',
  'GET /v1/operator/queue/rules',
  'GET /v1/operator/queue/selection',
  'POST /v1/operator/queue/hold',
  'POST /v1/operator/queue/redirect',
  'POST /v1/operator/queue/release',
  'POST /v1/operator/queue/release-without-content',
  'POST /v1/operator/queue/retry',
  'POST /v1/operator/queue/bounce',
  'POST /v1/operator/queue/drop',
  'GET /v1/operator/providers',
  'POST /v1/operator/providers/{name}/resume',
  'GET /v1/operator/alerts',
  'GET /v1/operator/reputation',
  'GET /v1/operator/fence',
  'POST /v1/operator/fence/release',
  'POST /v1/operator/fence/drop',
  'GET /v1/operator/cluster',
  'POST /v1/operator/cluster/step-down',
  'GET /v1/operator/received',
  'GET /v1/operator/received/unparsed',
  'POST /v1/operator/received/unparsed/{id}/retry',
  'GET /v1/operator/disk',
  'GET /v1/operator/doctor',
  'POST /v1/operator/doctor/run',
  'POST /v1/operator/retention/run',
  'GET /v1/operator/settings',
  'POST /v1/operator/accounts',
  'PUT /v1/operator/accounts/{id}/plan',
  'GET /v1/operator/users',
  'POST /v1/operator/accounts/{id}/users',
  'DELETE /v1/operator/accounts/{id}/users/{email}',
  'POST /v1/operator/users/{email}/reset-link',
  'PUT /v1/operator/users/{email}/operator',
  'DELETE /v1/operator/users/{email}/totp',
  'GET /v1/operator/users/{email}/sessions',
  'DELETE /v1/operator/users/{email}/sessions',
  'GET /v1/operator/account-deletions',
  'GET /v1/operator/complaint-rates',
  'GET /v1/operator/mail/{id}/raw',
  'GET /v1/operator/find',
  'GET /v1/operator/emails',
  'GET /v1/operator/emails/{id}/explanation',
  'GET /v1/operator/dead-letters',
  'GET /v1/operator/dead-letters/{id}',
  'GET /v1/operator/operations',
  'GET /v1/operator/webhooks',
  'GET /v1/operator/webhooks/{id}',
  'POST /v1/operator/accounts/{id}/api-keys',
  'POST /v1/operator/accounts/{id}/templates',
  'POST /v1/operator/accounts/{id}/domains/{domain_id}/verify-without-dns',
  'GET /v1/operator/contact-lists',
  'GET /v1/operator/certificates',
  'POST /v1/operator/certificates/retry',
  'GET /v1/operator/master-keys',
  'POST /v1/operator/master-keys/rotate',
  'GET /v1/operator/accounts',
  'GET /v1/operator/accounts/{id}',
  'POST /v1/operator/accounts/{id}/pause',
  'POST /v1/operator/accounts/{id}/resume',
  'PUT /v1/operator/accounts/{id}/pool',
  'GET /v1/operator/findings',
  'GET /v1/operator/complaints',
  'GET /v1/operator/reports',
  'POST /v1/operator/reports',
  'GET /v1/operator/reports/{id}',
  'GET /v1/operator/mail',
  'GET /v1/operator/mail/{id}',
  'POST /v1/operator/mail/{id}/retry',
  'DELETE /v1/operator/mail/{id}',
]

/** Routes that need no key; all other routes under /v1 need one. */
export const PUBLIC_ROUTES: readonly string[] = [
  'GET /healthz',
  'GET /.well-known/acme-challenge/{token}',
  'GET /t/tls-allowed',
  'GET /v1/billing/plans',
  'POST /billing/stripe',
  'GET /hooks/supabase',
  'POST /hooks/supabase/{key}',
  'POST /v1/auth/login',
  'POST /v1/auth/passkeys/challenge',
  'POST /v1/auth/passkeys/login',
  'GET /',
  'GET /login',
  'GET /login/passkey',
  'POST /login',
  'POST /logout',
  'GET /release/{token}',
  'POST /release/{token}',
  'GET /reset-password',
  'POST /reset-password',
  'GET /join',
  'POST /join',
  'GET /setup',
  'POST /setup',
  'GET /readyz',
  'GET /openapi.json',
  'GET /openapi-operator.json',
  'GET /docs',
  'GET /docs/{operation}',
  'GET /docs/integrations/{page}',
  'GET /llms.txt',
  'GET /icon.svg',
  'GET /app',
  'GET /app/*',
  'GET /app/assets/{name}',
  'GET /app/inbound/mailboxes/{id}/messages/{message}/html',
  'GET /app/inbound/{id}/html',
  'GET /app/captured/{id}/html',
  'GET /app/mail/{id}/html',
  'GET /app/previews/{id}',
  'GET /app/wording/{place}',
  'GET /app/newsletters/{id}/html',
  'GET /mailbox-files',
  'GET /t/o/{token}',
  'GET /t/c/{token}/{target}',
  'GET /t/logo/{hash}',
  'GET /badges/{file}',
  'GET /t/*',
  'GET /confirm/{token}',
  'POST /confirm/{token}',
  'GET /u',
  'GET /u/*',
  'GET /u/{token}',
  'POST /u/{token}',
  'GET /subscribe/{slug}',
  'POST /subscribe/{slug}',
  'OPTIONS /subscribe/{slug}',
  'POST /oauth/register',
  'OPTIONS /oauth/register',
  'POST /oauth/token',
  'OPTIONS /oauth/token',
  'POST /oauth/revoke',
  'OPTIONS /oauth/revoke',
  'GET /oauth/authorize',
  'GET /oauth/consent',
  'POST /oauth/consent',
  'GET /.well-known/oauth-protected-resource',
  'OPTIONS /.well-known/oauth-protected-resource',
  'GET /.well-known/oauth-protected-resource/*',
  'OPTIONS /.well-known/oauth-protected-resource/*',
  'GET /.well-known/oauth-authorization-server',
  'OPTIONS /.well-known/oauth-authorization-server',
  'GET /.well-known/oauth-authorization-server/*',
  'OPTIONS /.well-known/oauth-authorization-server/*',
]

export const routeName = ({ method, path }: Route): string => `${method} ${path.replace(/\?.*/, '')}`

/** Other providers' interfaces have other rules; test/features/drop-in tests them with the providers' clients. */
export const isOfDialect = (path: string): boolean => DIALECTS.some(({ speaks }) => speaks(path))

/** Method and path of every route of the service, sorted; of other providers' interfaces only with `ofDialects`. */
export const listOpenedRoutes = ({ opened }: Pick<EmailApi, 'opened'>, { ofDialects = false } = {}): string[] =>
  createRoutes(opened)
    .flatMap((plugin) => plugin.routes)
    .filter(({ path }) => isOfDialect(path) === ofDialects)
    .map(({ method, path }) => `${method} ${path.replace(/(.)\/$/, '$1').replace(/:(\w+)/g, '{$1}')}`)
    .sort()

/** What the role support may use of ROUTES: nothing else, whatever is added. */
export const SUPPORT_ROUTES: readonly string[] = [
  'GET /v1/account',
  'GET /v1/analytics/domains',
  'GET /v1/analytics/overview',
  'GET /v1/analytics/timeseries',
  'GET /v1/domains',
  'GET /v1/emails',
  'GET /v1/emails/{id}',
  'GET /v1/emails/{id}/attempts',
  'GET /v1/people/{address}',
  'GET /v1/search',
  'GET /v1/streams',
  'GET /v1/suppressions',
  'DELETE /v1/suppressions/{email}',
]

/** An id in the form of `resource`'s ids that does not exist. */
export const unknownId = (resource: Resource): string =>
  resource === 'dead-letter' || resource === 'log-entry' ? '987654321' : '01234567-89ab-7def-8123-456789abcdef'

/** The webhook or inbound route of each created delivery. An unknown delivery uses the newest of them. */
const webhookOfDelivery = new Map<string, string>()
const routeOfDelivery = new Map<string, string>()
/** The list of each created contact. */
const listOfContact = new Map<string, string>()
/** The list of each created import, by its operation. */
const listOfImport = new Map<string, string>()
/** The mailbox of each created message and thread. */
const mailboxOf = new Map<string, string>()

export function buildPath({ path, resource }: Pick<Route, 'path' | 'resource'>, id: string): string {
  const parentIn = (parents: ReadonlyMap<string, string>): string =>
    parents.get(id) ?? [...parents.values()].at(-1) ?? 'x'
  switch (resource) {
    case 'contact':
    case 'pending-contact':
      return path.replace('{id}', parentIn(listOfContact)).replace('{email}', encodeURIComponent(id))
    case 'contact-import':
      return path.replace('{id}', parentIn(listOfImport)).replace('{operation_id}', id)
    case 'webhook-delivery':
      return path.replace('{id}', parentIn(webhookOfDelivery)).replace('{delivery_id}', id)
    case 'inbound-route-delivery':
      return path.replace('{id}', parentIn(routeOfDelivery)).replace('{delivery_id}', id)
  }
  if (/\{[mt]id\}/.test(path))
    return path
      .replace('{id}', parentIn(mailboxOf))
      .replace(/\{[mt]id\}/, id)
      .replace('{n}', '0')
  return path
    .replace('{id}', id)
    .replace(/\{(?:email|address)\}/, encodeURIComponent(id))
    .replace('{n}', '0')
    .replace('{version}', '1')
}

/** Takes the records of domains. */
let updateServer: UpdateServer | undefined

export interface ContractApi extends EmailApi {
  /** Creates a new resource of its kind in the first account and returns its id. */
  make(resource: Resource): Promise<string>
  /** Sends a request with a valid body. */
  ask(route: Route, id: string, options?: ApiOptions): Promise<ApiResponse>
}

/** Creates a service with an account that can create every resource. */
export async function createContractApi(settings: Readonly<Record<string, string>> = {}): Promise<ContractApi> {
  const stripe = startStripeStub()
  updateServer = await startUpdateServer()
  const llm = startLlmStub(() => replyWith({ summary: 'All is well.', findings: [] }))
  const service = await createEmailApi({ settings: { ...stripeSettings(stripe), ...llmSettings(llm), ...settings } })
  const { api, accepted } = service
  stripe.customers.set('cus_contract', { email: 'owner@tassis.test', subscriptions: [] })
  service.app.db.run("UPDATE accounts SET stripe_customer_id = 'cus_contract' WHERE id = ?", [service.actor.accountId])
  const post = async (path: string, body: unknown): Promise<ApiResponse> => {
    const answer = await api('POST', path, body)
    expect(answer.status).toBeOneOf([201, 202])
    return answer
  }
  service.app.db.run('UPDATE domains SET inbound_enabled = 1 WHERE verified_at IS NOT NULL')
  routedDomain = String(at((await post('/v1/domains', { domain: `${unique('routed')}.test` })).body, 'data', 'id'))
  formlessLists = createLists(service)
  mailedList = String(at((await post('/v1/contact-lists', { name: unique('Mailed') })).body, 'data', 'id'))
  await post(`/v1/contact-lists/${mailedList}/contacts`, { email: 'ben@receiver.test' })
  // The first broadcast of an account creates this stream. It is created here, so that each route changes only its own
  // resource.
  await post('/v1/streams', { slug: 'broadcast', name: 'Broadcasts' })
  const make: ContractApi['make'] = async (resource) => {
    switch (resource) {
      case 'api-key':
        return String(at((await post('/v1/api-keys', { name: unique('key') })).body, 'data', 'id'))
      case 'broadcast': {
        const later = new Date(service.clock.now() + hours(1)).toISOString()
        const { body } = await post('/v1/emails/broadcast', { ...broadcast(), send_at: later })
        return String(at(body, 'data', 'operation_id'))
      }
      case 'captured-email':
        return createCapturedEmail(service)
      case 'contact':
      case 'pending-contact': {
        const doubleOptIn = { name: unique('List'), double_opt_in: resource === 'pending-contact' }
        const list = String(at((await post('/v1/contact-lists', doubleOptIn)).body, 'data', 'id'))
        const email = `${unique('contact')}@receiver.test`
        await post(`/v1/contact-lists/${list}/contacts`, { email })
        listOfContact.set(email, list)
        return email
      }
      case 'contact-list':
        return String(at((await post('/v1/contact-lists', { name: unique('List') })).body, 'data', 'id'))
      case 'domain':
        return String(at((await post('/v1/domains', { domain: `${unique('made')}.test` })).body, 'data', 'id'))
      case 'contact-import': {
        const list = await make('contact-list')
        const posted = await postFile(service, list, 'waits@receiver.test\n')
        const id = String(at(posted.body, 'data', 'operation_id'))
        listOfImport.set(id, list)
        return id
      }
      case 'tracking-domain': {
        const id = await make('domain')
        const host = { tracking_domain: `links.${unique('made')}.test` }
        expect((await api('PUT', `/v1/domains/${id}/tracking-domain`, host)).status).toBe(200)
        return id
      }
      case 'email':
        return (await accepted({ send_at: new Date(service.clock.now() + hours(1)).toISOString() })).id
      case 'deferred-email': {
        const { id } = await accepted()
        service.app.db.run(
          `UPDATE recipients SET attempts = 1, next_at = next_at + 3600000
           WHERE email_id = (SELECT id FROM emails WHERE uuid = unhex(?))`,
          [id.replaceAll('-', '')],
        )
        return id
      }
      case 'draft': {
        const made = await api('POST', '/v1/api-keys', { name: unique('agent'), drafts: true })
        const { id } = await accepted({}, { key: String(at(made.body, 'data', 'key')) })
        return id
      }
      case 'ended-email': {
        const id = await make('email')
        expect((await api('POST', `/v1/emails/${id}/cancel`)).status).toBe(200)
        return id
      }
      case 'inbound-email':
        return storeTestInbound(
          service.app,
          { accountId: service.actor.accountId, domainId: domainIdOf(service) },
          { attachments: [{ filename: 'a.txt', contentType: 'text/plain', content: Buffer.from('a') }] },
        )
      case 'inbound-route':
        return String(at((await post('/v1/inbound-routes', inboundRoute())).body, 'data', 'id'))
      case 'inbound-route-delivery': {
        const route = await make('inbound-route')
        const { delivery_id: deliveryId } = await sendTestEvent(service.app, service.actor, route, getRouteWebhook)
        routeOfDelivery.set(deliveryId, route)
        return deliveryId
      }
      case 'insight':
        return createInsight(service)
      case 'invitation':
        return createInvitation(service)
      case 'leased-message': {
        const id = await make('mailbox-message')
        const leased = await api('GET', `/v1/agent-mailboxes/${mailboxOf.get(id)}/messages/next`)
        leaseToken = String(at(leased.body, 'lease_token'))
        return id
      }
      case 'mailbox': {
        const id = String(at((await post('/v1/agent-mailboxes', {})).body, 'data', 'id'))
        const attachments = [{ filename: 'a.txt', contentType: 'text/plain', content: Buffer.from('a') }]
        const mailbox = testMailbox(service.app, service.actor.accountId, id)
        mailboxOf.set(await deliverMessage(service.app, mailbox, { attachments, raw: 'Subject: Hello\r\n\r\n' }), id)
        return id
      }
      case 'mailbox-message': {
        await make('mailbox')
        return [...mailboxOf.keys()].at(-1) ?? ''
      }
      case 'mailbox-thread': {
        const mailbox = await make('mailbox')
        const threads = await api('GET', `/v1/agent-mailboxes/${mailbox}/threads`)
        const id = String(at(threads.body, 'data', 0, 'id'))
        mailboxOf.set(id, mailbox)
        return id
      }
      case 'member': {
        const { user } = await createTestUser(service.app, service.actor, `${unique('member')}@receiver.test`, 'viewer')
        return formatUuid(user.uuid)
      }
      case 'newsletter':
        return String(at((await post('/v1/newsletters', newsletter())).body, 'data', 'id'))
      case 'paused-broadcast': {
        const id = await make('broadcast')
        expect((await api('POST', `/v1/operations/${id}/pause`)).status).toBe(200)
        return id
      }
      case 'operation':
        return String(at((await post('/v1/emails/batch', { emails: [EMAIL] })).body, 'operation_id'))
      case 'draft-sequence':
        return String(at((await post('/v1/sequences', sequence())).body, 'data', 'id'))
      case 'sequence': {
        const { body } = await post('/v1/templates', template())
        const steps = [{ delay: '1d', template_alias: at(body, 'data', 'alias') }]
        return String(at((await post('/v1/sequences', { ...sequence(), steps, status: 'active' })).body, 'data', 'id'))
      }
      case 'signup-form':
        return String(at((await post('/v1/signup-forms', signupForm())).body, 'data', 'id'))
      case 'stream':
        return String(at((await post('/v1/streams', { slug: unique('made'), name: 'Made' })).body, 'data', 'id'))
      case 'sub-account':
        return String(at((await post('/v1/accounts', subAccount())).body, 'data', 'id'))
      case 'suppression': {
        const address = { email_address: `${unique('made')}@receiver.test` }
        return String(at((await post('/v1/suppressions', address)).body, 'data', 'email_address'))
      }
      case 'template':
        return String(at((await post('/v1/templates', template())).body, 'data', 'id'))
      case 'webhook':
        return String(at((await post('/v1/webhooks', WEBHOOK)).body, 'data', 'id'))
      case 'webhook-event':
        return await service.app.commit.write((tx) =>
          String(
            record(tx, {
              accountId: service.actor.accountId,
              type: 'account.auto_paused',
              at: service.app.eventTime(),
            }),
          ),
        )
      case 'webhook-delivery': {
        const webhook = await make('webhook')
        expect((await api('POST', `/v1/webhooks/${webhook}/test`)).status).toBe(200)
        const id = String(at((await api('GET', `/v1/webhooks/${webhook}/deliveries`)).body, 'data', 0, 'id'))
        webhookOfDelivery.set(id, webhook)
        return id
      }
      case 'dead-letter':
        return createDeadLetter(service)
      case 'log-entry':
        await api('GET', '/v1/domains')
        return String(at((await api('GET', '/v1/logs')).body, 'data', 0, 'id'))
    }
  }
  return {
    ...service,
    make,
    ask: async (route, id, options) => {
      await agePastExport(service)
      return route.csv
        ? requestCsv(service, { ...route, path: buildPath(route, id) }, options)
        : api(route.method, buildPath(route, id), route.body?.(), {
            ...options,
            ...(route.endsAccount && options?.key !== null && { key: await createForeignKey(service, options?.key) }),
            headers: { ...route.headers, ...options?.headers },
          }).finally(() => agePastInsights(service))
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      stripe[Symbol.dispose]()
      await llm[Symbol.asyncDispose]()
    },
  }
}

/**
 * Replaces a key that can delete the first account with a key that has the same scopes in a new account. Other keys are
 * returned unchanged.
 */
export async function createForeignKey(service: EmailApi, key = service.key): Promise<string> {
  const found = service.app.db
    .query<{ scopes: string }, [Uint8Array, number]>('SELECT scopes FROM api_keys WHERE hash = ? AND account_id = ?')
    .get(sha256(key), service.actor.accountId)
  const scopes = JSON.parse(found?.scopes ?? '[]') as string[]
  return scopes.includes('account:admin') ? service.newKey(scopes, await service.newAccount()) : key
}

/** Creates a report that is two days old. */
async function createInsight({ app, actor }: EmailApi): Promise<string> {
  const id = await app.commit.write((tx) =>
    storeInsight(app, tx, actor, {
      periodStart: 0,
      periodEnd: app.clock.now(),
      model: 'test-model',
      inputTokens: 1,
      outputTokens: 1,
      summary: 'All is well.',
      findings: '[]',
      rawMarkdown: '',
    }),
  )
  agePastInsights({ app })
  return id
}

/** Ages every report, so that another can be generated: the limit of one per day is too low for the matrices. */
const agePastInsights = ({ app }: Pick<EmailApi, 'app'>): void =>
  void app.db.run('UPDATE insights SET generated_at = ?1 WHERE generated_at > ?1', [app.clock.now() - hours(48)])

/**
 * Allows another export of the account: the limit of one per hour is too low for the matrices. Runs after the last
 * export was recorded as complete.
 */
const agePastExport = ({ app }: Pick<EmailApi, 'app'>): Promise<void> =>
  app.commit.write((tx) => void tx.db.run('UPDATE accounts SET exported_at = NULL'))

/** Allows another export of the account and another report. */
export async function agePastLimits(service: ContractApi): Promise<void> {
  await agePastExport(service)
  agePastInsights(service)
}

/** More lists than the forms that any test file creates. */
const FORMLESS_LISTS = 200

/** Creates contact lists in the first account and returns their ids. */
function createLists({ app, actor }: EmailApi): string[] {
  const insert = app.db.query(
    `INSERT INTO contact_lists (uuid, account_id, name, double_opt_in, welcome_enabled, welcome_delay_seconds, created_at, updated_at)
     VALUES (?, ?, ?, 0, 0, 0, 0, 0)`,
  )
  return Array.from({ length: FORMLESS_LISTS }, () => {
    const uuid = newUuid()
    insert.run(uuid, actor.accountId, unique('Formless'))
    return formatUuid(uuid)
  })
}

/** Inserts an invitation, without its mail and without the limits on invitations. */
function createInvitation({ app, actor, clock }: EmailApi): string {
  const uuid = newUuid()
  app.db.run(
    `INSERT INTO invitations (uuid, account_id, email, role, token_hash, invited_by, expires_at, created_at)
     VALUES (?, ?, ?, 'viewer', ?, 'cli', ?, ?)`,
    [uuid, actor.accountId, `${unique('invited')}@receiver.test`, newUuid(), clock.now() + hours(1), clock.now()],
  )
  return formatUuid(uuid)
}

const domainIdOf = ({ app, actor }: EmailApi): number => {
  const [row] = app.db
    .query<{ id: number }, [number]>('SELECT id FROM domains WHERE account_id = ? AND deleted_at IS NULL')
    .all(actor.accountId)
  if (!row) throw new Error('the account has no domain')
  return row.id
}

/** Sends a request whose body or response is CSV or another file. A file is not returned as `body`. */
async function requestCsv(
  { url, key }: EmailApi,
  { method, path, csv }: Route,
  options: ApiOptions = {},
): Promise<ApiResponse> {
  const token = options.key === undefined ? key : options.key
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      ...(token !== null && { authorization: `Bearer ${token}` }),
      ...(typeof csv === 'function' && { 'content-type': 'text/csv' }),
      ...options.headers,
    },
    ...(typeof csv === 'function' && { body: csv() }),
  })
  const isFile = response.headers.has('content-disposition')
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: isFile ? undefined : JSON.parse(text) }
}

async function createDeadLetter({ app, api, accepted }: EmailApi): Promise<string> {
  const lane = `${unique('lost')}.test`
  await accepted({ to: `bob@${lane}` })
  await app.commit.write((tx) => {
    const now = app.clock.now()
    const claimed = claimDueTo(tx, lane, { now, eventTime: now, limit: 1, retryAt: () => now + hours(1) })
    expect(claimed).toHaveLength(1)
    for (const hand of claimed) {
      const verdict = { kind: 'failed', reason: 'The message could not be composed' } as const
      writeOutcome(app, tx, { ...hand, startedAt: undefined }, verdict, undefined)
    }
  })
  return String(at((await api('GET', '/v1/dead-letters')).body, 'data', 0, 'id'))
}

async function createCapturedEmail({ app, opened, accepted }: EmailApi): Promise<string> {
  const attachments = [{ filename: 'a.txt', content: btoa('Hello'), content_type: 'text/plain' }]
  const { id } = await accepted({ from: `ada@${UNVERIFIED}`, attachments })
  const recipient = app.db
    .query<{ id: number; emailId: number; accountId: number }, [Uint8Array]>(
      'SELECT recipients.id, email_id AS emailId, account_id AS accountId FROM recipients JOIN emails ON emails.id = email_id WHERE uuid = ?',
    )
    .get(parseUuid(id) ?? new Uint8Array())
  if (!recipient) throw new Error(`no recipient of ${id}`)
  await opened.captures.save({
    recipientId: recipient.id,
    emailId: recipient.emailId,
    ownerId: 1,
    accountId: recipient.accountId,
    mailFrom: `bounce@${UNVERIFIED}`,
    rcptTo: EMAIL.to,
    raw: Buffer.from('Subject: Hello\r\n\r\nHello, Bob.\r\n'),
  })
  return id
}

/**
 * Returns all data of the main database, to detect changes, except when keys were last used and when an export was last
 * completed.
 */
export function dumpDatabase({ app: { db } }: EmailApi): string {
  const tables = db
    .query<{ name: string; columns: string }, []>(
      `SELECT tables.name, group_concat(format('quote("%w")', columns.name), ' || '','' || ') AS columns
       FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns
       WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite_%'
         -- The completion of an export is recorded after the response, and reset by \`ask\`.
         AND columns.name NOT IN ('last_used_at', 'exported_at')
       GROUP BY tables.name`,
    )
    .all()
  // SQLite formats the rows, because many long rows are read before and after each of a thousand requests.
  const rowsOf = ({ name, columns }: (typeof tables)[number]): string =>
    db.query<{ rows: string }, []>(`SELECT group_concat(${columns}, char(10)) AS rows FROM "${name}"`).get()?.rows ?? ''
  return tables.map((table) => `${table.name}\n${rowsOf(table)}`).join('\n\n')
}

/** A second account with its own key. */
export async function addAccount(service: EmailApi): Promise<{ actor: Actor; key: string }> {
  const actor = await service.newAccount()
  return { actor, key: await service.newKey([], actor) }
}
