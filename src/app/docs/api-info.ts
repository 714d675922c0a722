/** @module What the API description says beside its routes. Used at build time, and once in a run from sources. */
import type { AnyElysia } from 'elysia'
import { describeWebhookRequests } from '#features/webhooks/webhooks/payload/payload-schemas.ts'
import { createDocs } from '#platform/http/docs-page.ts'
import { readDocuments } from './documents.ts'

const API_INFO = {
  title: 'Tassis',
  // The version of the API, as in its paths; `tassis version` prints that of the program.
  version: '1.0.0',
  description:
    'Send transactional email and track its delivery. Receive replies, bounces and complaints at your URL or in agent mailboxes. Every response has an X-Request-Id header; every error has the same body. Unknown fields and query parameters return 422.',
  more: {
    license: { name: 'MIT', identifier: 'MIT' },
    contact: { name: 'The operator of this service' },
  },
  webhooks: describeWebhookRequests(),
  operators: {
    title: 'Tassis: operators and sign-in',
    description: 'What the dashboard uses: sign in, and operate the service. No API key can call these operations.',
    paths: ['/v1/auth/', '/v1/operator/'],
  },
  tags: {
    Emails: 'Send email and track its delivery.',
    'Captured mail': 'Mail that was captured instead of being sent, as an inbox.',
    Events: 'All events in order, as a feed or a stream.',
    Webhooks: 'Events posted to your URL, signed and retried.',
    'Dead letters': 'Email that failed or whose delivery is uncertain, for review.',
    Domains: 'Domains that you send from and receive at, with the DNS records they need.',
    Sequences: 'Emails that each person gets one after the other, and who is in them.',
    Streams: 'Kinds of email, each with its own reputation and unsubscribes.',
    Templates: 'Stored subjects and bodies with variables, rendered for each email.',
    'Contact lists': 'Lists of subscribers and the status of each.',
    Suppressions: 'Addresses that you do not send to.',
    Inbound: 'Mail received at your domains.',
    'Inbound routes': 'Address patterns of a domain and the URL that receives their mail.',
    'Agent mailboxes': 'Addresses whose mail a program processes: wait for a message, acknowledge it, reply.',
    'Signup forms': 'Public pages where people subscribe to a contact list.',
    Broadcasts: 'Messages that are sent, or were sent, to a contact list: progress and results.',
    Newsletters: 'Messages to a contact list, drafted first and sent later.',
    Insights: 'Reports that a language model writes from the statistics of the account alone.',
    Validation: 'Checks of an address that send no mail to it.',
    Analytics: 'Delivery statistics by day and recipient domain.',
    Operations: 'Work that continues after its response: batches, broadcasts, imports.',
    'API keys': 'API keys and their scopes.',
    People: 'Users who sign in with a browser: sessions, passwords, authenticator apps, and the team of the account.',
    Account: 'The account that the key belongs to.',
    Billing: 'Plans with their limits and prices, and the subscription of the account.',
    'Sub-accounts': 'Accounts that belong to yours, with domains, keys and mail of their own.',
    'Audit log': 'Who changed what, and when.',
    Logs: 'The requests of an account, with what was wrong with those that were refused.',
    Operator: 'The whole service, for its operators.',
    Privacy: 'Export and erase what the account stores about one person.',
  },
}

/** The files of /docs. @param routes of the service */
export const describeRoutes = async (routes: readonly AnyElysia[]) => [
  ...(await createDocs(routes, API_INFO)),
  ...readDocuments(API_INFO.description),
]
