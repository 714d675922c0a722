/** @module Tools for what an account sets up: domains, templates, suppressions and webhooks. */
import { Type } from '@sinclair/typebox'
import { defineTool, Id, input, maybe, PAGE, pageQuery, path, Words } from '../tool.ts'
import { address, fields, list, own, owned, pageOf, strange, type View, values } from '../view.ts'

const DOMAIN_ROW = {
  ...owned('id domain status spf_verified dkim_verified dmarc_verified return_path_verified mx_verified'),
  ...owned('inbound_enabled tracking_domain tracking_domain_verified verified_at records_lost_at sends_until'),
  lost_records: list(own),
}

const DomainId = Id('Id of the domain, from list_domains.')

const listDomains = defineTool({
  name: 'list_domains',
  title: 'List domains',
  description: 'Lists the domains of this account, and which of their DNS records are verified.',
  scopes: ['domains:read'],
  effect: 'read',
  input: input(PAGE),
  view: pageOf(DOMAIN_ROW),
  run: (call, { limit, cursor }) => call({ method: 'GET', path: '/domains', query: pageQuery(limit, cursor) }),
})

const checkDomain = defineTool({
  name: 'check_domain',
  title: 'Check the DNS records of a domain',
  description:
    'Looks at the DNS now: for each record what must be published, what was found, and what to do. Changes nothing.',
  scopes: ['domains:read'],
  effect: 'read',
  input: input({ domain_id: DomainId }),
  view: fields({
    data: fields({
      ...owned('domain zone checked_at'),
      provider: fields(owned('name edit_url')),
      records: values(
        fields({
          ...owned('type host expected priority status'),
          found: strangeOrStrangers(),
          detail: strange,
          keep: strangeOrStrangers(),
        }),
      ),
      warnings: list(strange),
    }),
  }),
  run: (call, { domain_id: id }) => call({ method: 'GET', path: path`/domains/${id}/dns` }),
})

/** A text of a stranger, or a list of them. */
function strangeOrStrangers(): View {
  const texts = list(strange)
  return (value, maxLength) => (Array.isArray(value) ? texts : strange)(value, maxLength)
}

const verifyDomain = defineTool({
  name: 'verify_domain',
  title: 'Verify a domain',
  description:
    'Checks the DNS records of a domain and stores what is verified, so that the domain may send. Call it after the records were published.',
  scopes: ['domains:write'],
  effect: 'repeatable',
  input: input({ domain_id: DomainId }),
  view: fields({
    data: fields({
      ...DOMAIN_ROW,
      domain: fields({ domain: own }),
      fully_verified: own,
      checks: values(fields({ verified: own, detail: strange })),
    }),
  }),
  run: (call, { domain_id: id }) => call({ method: 'POST', path: path`/domains/${id}/verify` }),
})

const listTemplates = defineTool({
  name: 'list_templates',
  title: 'List templates',
  description: 'Lists stored templates, without bodies.',
  scopes: ['templates:read'],
  effect: 'read',
  input: input({ search: maybe(Words('Words of the name or alias.')), ...PAGE }),
  view: pageOf({ ...owned('id alias version updated_at'), name: strange, subject: strange }),
  run: (call, { search, limit, cursor }) =>
    call({ method: 'GET', path: '/templates', query: { search, ...pageQuery(limit, cursor) } }),
})

const testTemplate = defineTool({
  name: 'test_template',
  title: 'Test a template',
  description: 'Renders a stored template with variables and shows the result or its error. Sends and stores nothing.',
  scopes: ['templates:read'],
  effect: 'read',
  input: input({
    template_id: Id('Id of the template, from list_templates.'),
    template_data: maybe(Type.Record(Type.String(), Type.Unknown(), { description: 'Variables of the template.' })),
  }),
  view: fields({ data: fields({ subject: strange, html_body: strange, text_body: strange }) }),
  run: (call, { template_id: id, template_data = {} }) =>
    call({ method: 'POST', path: path`/templates/${id}/render`, body: { template_data } }),
})

const findSuppressions = defineTool({
  name: 'find_suppressions',
  title: 'Find suppressions',
  description: 'Lists addresses that this account does not send to, with the reason: a hard bounce, a complaint, ….',
  scopes: ['suppressions:read'],
  effect: 'read',
  input: input({
    email: maybe(Words('The address.')),
    reason: maybe(Words('hard_bounce, complaint, manual or unsubscribe.')),
    ...PAGE,
  }),
  view: pageOf({ ...owned('source_email_id stream list_id created_at'), email_address: address, reason: strange }),
  run: (call, { email, reason, limit, cursor }) =>
    call({ method: 'GET', path: '/suppressions', query: { email, reason, ...pageQuery(limit, cursor) } }),
})

const removeSuppression = defineTool({
  name: 'remove_suppression',
  title: 'Allow sending to an address again',
  description:
    'Takes an address off the suppression list. Only after the person who gave you the task has confirmed that the address works again and its owner wants mail: sending to dead addresses or to people who complained harms all mail of the account.',
  scopes: ['suppressions:write'],
  effect: 'repeatable',
  input: input({
    email: Type.String({
      pattern: '^[^@]{1,64}@[^@]{1,255}$',
      description: 'The address.',
      errorMessage: 'an address',
    }),
  }),
  view: fields({ done: own }),
  run: async (call, { email }) => {
    await call({ method: 'DELETE', path: path`/suppressions/${email}` })
    return { done: true }
  },
})

/** Without its query, in which some endpoints expect a secret. */
const endpoint: View = (value) => (typeof value === 'string' ? value.replace(/[?#].*$/s, '').slice(0, 300) : undefined)

const listWebhooks = defineTool({
  name: 'list_webhooks',
  title: 'List webhooks',
  description: 'Lists webhooks with their events and failures, without their secrets.',
  scopes: ['webhooks:read'],
  effect: 'read',
  input: input(PAGE),
  view: pageOf({
    ...owned('id is_active failure_count failing_since last_failure_at last_success_at'),
    url: endpoint,
    description: strange,
    events: list(own),
    last_failure_reason: strange,
  }),
  run: (call, { limit, cursor }) => call({ method: 'GET', path: '/webhooks', query: pageQuery(limit, cursor) }),
})

const DELIVERY_ROW = {
  ...owned(
    'id event event_id email_id status attempts next_attempt_at attempted_at duration_ms status_code created_at',
  ),
  error: strange,
  response: strange,
}

const WebhookId = Id('Id of the webhook, from list_webhooks.')

const listDeliveries = defineTool({
  name: 'list_webhook_deliveries',
  title: 'List deliveries of a webhook',
  description: 'Lists what was posted to a webhook and how its endpoint answered, newest first.',
  scopes: ['webhooks:read'],
  effect: 'read',
  input: input({
    webhook_id: WebhookId,
    status: maybe(Words('pending, delivered or undeliverable.')),
    event: maybe(Words('An event, such as bounced.')),
    ...PAGE,
  }),
  view: pageOf(DELIVERY_ROW),
  run: (call, { webhook_id: id, status, event, limit, cursor }) =>
    call({
      method: 'GET',
      path: path`/webhooks/${id}/deliveries`,
      query: { status, event, ...pageQuery(limit, cursor) },
    }),
})

const replayDelivery = defineTool({
  name: 'replay_webhook_delivery',
  title: 'Replay a delivery of a webhook',
  description: 'Posts an event to its webhook again, with the same body. It sends no email.',
  scopes: ['webhooks:write'],
  effect: 'write',
  input: input({ webhook_id: WebhookId, delivery_id: Words('Id of the delivery, from list_webhook_deliveries.') }),
  view: fields({ data: fields(DELIVERY_ROW) }),
  run: (call, { webhook_id: id, delivery_id: deliveryId }) =>
    call({ method: 'POST', path: path`/webhooks/${id}/deliveries/${deliveryId}/replay` }),
})

export const setupTools = [
  listDomains,
  checkDomain,
  verifyDomain,
  listTemplates,
  testTemplate,
  findSuppressions,
  removeSuppression,
  listWebhooks,
  listDeliveries,
  replayDelivery,
]
