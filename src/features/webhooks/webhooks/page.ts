/**
 * @module Renders the page on which users see and replace the signing secrets of their webhooks, and test them. Pure:
 * from values to HTML, without scripts.
 */

import { LOGIN_PATH, WEBHOOKS_PATH } from '#features/people/team/links.ts'
import { hiddenField, userPage } from '#features/people/team/page.ts'
import { type Html, html } from '#platform/http/html.ts'

export interface WebhookView {
  readonly id: string
  readonly url: string
  readonly isActive: boolean
  /** In clear, when the user asked for it. */
  readonly secret?: string | undefined
  /** The secret was just replaced; earlier requests were signed with the old one. */
  readonly isRotated?: boolean
  /** A test event was just requested. */
  readonly isTested?: boolean
}

/** A webhook whose secret the user is about to replace. */
export interface ReplacementView {
  readonly id: string
  readonly url: string
  /** The version of the webhook that the user saw. */
  readonly version: string
  readonly csrfToken: string
}

/** Link to the page with all webhooks. */
export const BACK_LINK = html`<a href="${WEBHOOKS_PATH}">Signing secrets</a>`

export interface WebhooksView {
  readonly accountName: string
  readonly webhooks: readonly WebhookView[]
  /** Number of all webhooks. */
  readonly total: number
  /** Whether the user's role may see and replace secrets. */
  readonly canChange: boolean
  readonly csrfToken: string
}

/** Values of the buttons. */
export const REVEAL = 'reveal'
export const ROTATE = 'rotate'
export const TEST = 'test'
/** `?replace=ID` asks for confirmation before the secret of a webhook is replaced. */
export const REPLACE = 'replace'

export const renderWebhooksPage = ({ accountName, webhooks, total, canChange, csrfToken }: WebhooksView): Html =>
  userPage(
    'Signing secrets',
    html`<p>Requests to the webhooks of <strong>${accountName}</strong> are signed, each webhook with its own secret.${
      !canChange && ' Your role does not show secrets; ask an owner or admin.'
    }</p>
${webhooks.length === 0 && html`<p>There are no webhooks yet; create one with POST /v1/webhooks.</p>`}
${webhooks.map((webhook) => renderWebhookSection(webhook, canChange, csrfToken))}
${total > webhooks.length && html`<p>These are the newest ${String(webhooks.length)} of ${String(total)}.</p>`}
<p class="beside"><a href="${LOGIN_PATH}">Back</a></p>`,
  )

const renderWebhookSection = (
  { id, url, isActive, secret, isRotated, isTested }: WebhookView,
  canChange: boolean,
  csrfToken: string,
): Html => html`<section class="beside">
<h2 style="overflow-wrap:anywhere;font-size:1rem">${url}</h2>
<p>${isActive ? 'On' : 'Off'}</p>
${
  secret !== undefined &&
  html`<p role="status">${isRotated && 'This is the new secret. It signs every request from now on, including retries. '}<code style="overflow-wrap:anywhere">${secret}</code></p>`
}
${isTested && html`<p role="status">A test event is queued. GET /v1/webhooks/${id}/deliveries shows the response.</p>`}
${
  canChange &&
  html`<form method="post" action="${WEBHOOKS_PATH}">
${hiddenField('csrf_token', csrfToken)}${hiddenField('id', id)}
<p><button name="action" value="${REVEAL}">Show the secret</button></p>
<p><button name="action" value="${TEST}">Send a test event</button></p>
</form>
<p style="margin-top:1rem"><a href="${WEBHOOKS_PATH}?${REPLACE}=${id}" aria-label="Replace the secret of ${url}">Replace the secret</a></p>`
}
</section>`

/** The confirmation page before a secret is replaced. */
export const renderReplacePage = ({ id, url, version, csrfToken }: ReplacementView): Html =>
  userPage(
    'Replace the secret?',
    html`<p>The secret of <strong>${url}</strong> becomes invalid immediately: the new one signs every later request, including retries. Your endpoint cannot verify them until it has the new secret.</p>
<form method="post" action="${WEBHOOKS_PATH}">
${hiddenField('csrf_token', csrfToken)}${hiddenField('id', id)}${hiddenField('version', version)}
<button name="action" value="${ROTATE}">Replace the secret</button>
</form>
<p class="beside"><a href="${WEBHOOKS_PATH}">Keep the secret</a></p>`,
  )
