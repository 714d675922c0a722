/**
 * @module What Resend's interface has, and this service has under another name or not at all. Its routes are a 404 that
 * says so; "no such route" would look like a wrong base URL.
 */

const MARKETING =
  'Marketing mail is sent to contact lists here: /v1/contact-lists and /v1/newsletters, or the dashboard.'

/** First segments below the prefix. */
const ABSENT: Readonly<Record<string, string>> = {
  audiences: MARKETING,
  automations: 'Start them from a webhook of your own.',
  broadcasts: MARKETING,
  'contact-properties': MARKETING,
  contacts: MARKETING,
  events: 'Automations, which they start, do not exist here; GET /v1/events lists what happened to mail.',
  inboxes: 'Use agent mailboxes: /v1/agent-mailboxes.',
  logs: 'GET /v1/events lists what happened to mail, GET /v1/audit-logs what was changed.',
  oauth: 'Access is by API keys only.',
  segments: MARKETING,
  templates: 'Use /v1/templates or the dashboard; emails name a template by its id or alias.',
  topics: 'Use streams and contact lists, from which recipients unsubscribe: /v1/streams, /v1/contact-lists.',
  usage: 'GET /v1/account shows the quota and what is used of it.',
}

/** Routes of something that exists otherwise. */
const ABSENT_ROUTES: readonly { readonly path: RegExp; readonly name: string; readonly instead: string }[] = [
  { path: /^\/emails\/metrics$/, name: 'Email metrics', instead: 'GET /v1/analytics/overview has such figures.' },
  { path: /^\/emails\/[^/]+\/share$/, name: 'Shared links to emails', instead: 'Open the email in the dashboard.' },
  {
    path: /^\/domains\/(?:claim|[^/]+\/claim(?:\/verify)?)$/,
    name: 'Claims of domains',
    instead: 'Create the domain; its DNS records prove that it is yours.',
  },
  {
    path: /^\/webhooks\/[^/]+\/signing-secret\/rotate$/,
    name: 'Rotation of a signing secret by API key',
    instead: 'Rotate it in the dashboard, where you confirm your password.',
  },
  {
    path: /^\/webhooks\/[^/]+\/events(?:\/.*)?$/,
    name: 'Events of a webhook',
    instead: 'GET /v1/webhooks/{id}/deliveries lists them, and they can be replayed there.',
  },
]

/** Why there is nothing at a path; undefined for a path that this interface does not know either. */
export function describeAbsence(fullPath: string): string | undefined {
  const path = fullPath.replace(/^\/resend(?=\/)/, '').replace(/\/$/, '')
  const segment = path.split('/')[1] ?? ''
  const instead = Object.hasOwn(ABSENT, segment) ? ABSENT[segment] : undefined
  if (instead !== undefined) return `"${segment}" is not part of this service. ${instead}`
  const route = ABSENT_ROUTES.find((absent) => absent.path.test(path))
  return route && `${route.name}: not part of this service. ${route.instead}`
}
