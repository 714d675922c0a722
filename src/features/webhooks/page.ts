/** @module The page on which people see and replace the signing secrets of their webhooks. Pure: from values to HTML, without scripts. */
import { type Html, html } from '#platform/http/html.ts'
import { LOGIN_PATH, WEBHOOKS_PATH } from '../team/links.ts'
import { hidden, peoplePage } from '../team/page.ts'

export interface ShownWebhook {
  readonly id: string
  readonly url: string
  readonly isActive: boolean
  /** In clear, where it was asked for. */
  readonly secret?: string | undefined
  /** The secret is new: what was signed before is not signed with it. */
  readonly isRotated?: boolean
}

export interface WebhooksShown {
  readonly accountName: string
  readonly webhooks: readonly ShownWebhook[]
  /** How many there are. */
  readonly total: number
  /** Whether the role allows to see and replace secrets. */
  readonly mayChange: boolean
  readonly csrfToken: string
}

/** The names of the two buttons of a webhook. */
export const REVEAL = 'reveal'
export const ROTATE = 'rotate'

export const webhooksPage = ({ accountName, webhooks, total, mayChange, csrfToken }: WebhooksShown): Html =>
  peoplePage(
    'Signing secrets',
    html`<p>Requests to the webhooks of <strong>${accountName}</strong> are signed, each webhook with a secret of its own.${
      !mayChange && ' Your role does not show secrets; ask an owner or admin.'
    }</p>
${webhooks.length === 0 && html`<p>There is no webhook yet; make one with POST /v1/webhooks.</p>`}
${webhooks.map((webhook) => webhookSection(webhook, mayChange, csrfToken))}
${total > webhooks.length && html`<p>These are the newest ${String(webhooks.length)} of ${String(total)}.</p>`}
<p class="beside"><a href="${LOGIN_PATH}">Back</a></p>`,
  )

const webhookSection = (
  webhook: ShownWebhook,
  mayChange: boolean,
  csrfToken: string,
): Html => html`<section class="beside">
<h2 style="overflow-wrap:anywhere;font-size:1rem">${webhook.url}</h2>
<p>${webhook.isActive ? 'On' : 'Off'}</p>
${
  webhook.secret !== undefined &&
  html`<p role="status">${webhook.isRotated && 'This is the new secret; every request from now on is signed with it, also those that are tried again. '}<code style="overflow-wrap:anywhere">${webhook.secret}</code></p>`
}
${
  mayChange &&
  html`<form method="post" action="${WEBHOOKS_PATH}">
${hidden('csrf_token', csrfToken)}${hidden('id', webhook.id)}
<p><button name="action" value="${REVEAL}">Show the secret</button></p>
<p class="quiet"><button name="action" value="${ROTATE}">Replace the secret</button></p>
<p class="hint">Replaced, the old one is void at once.</p>
</form>`
}
</section>`
