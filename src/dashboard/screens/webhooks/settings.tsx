/** @module Changes a webhook. What somebody else changed in the meantime stays, apart from the same fields. */
import type { UpdateWebhookRequest, Webhook } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { FieldForm } from '../../parts/field-form.tsx'
import { Notice } from '../../parts/notice.tsx'
import { WEBHOOK_FIELDS } from './fields.tsx'
import { toWebhookState } from './state.ts'

const ACTIVE_FIELD = {
  name: 'is_active',
  label: 'Post events to this webhook',
  kind: 'switch',
  hint: 'Off: events of that time are not sent later, but can be replayed.',
} as const

export function WebhookSettings({ webhook }: { readonly webhook: Webhook }) {
  const isDeactivated = toWebhookState(webhook) === 'deactivated'
  return (
    <>
      {isDeactivated && <Notice>Saving a change activates this webhook again.</Notice>}
      <FieldForm
        maw={640}
        needs="developer"
        done="The webhook was saved."
        stored={webhook}
        refreshes={['webhooks']}
        run={(changes: Partial<UpdateWebhookRequest>) => {
          const { url, description, events, format, is_active, updated_at } = webhook
          return api.webhooks.update(webhook.id, {
            url,
            description,
            events,
            format,
            is_active,
            updated_at,
            ...changes,
          })
        }}
        fields={isDeactivated ? WEBHOOK_FIELDS : [ACTIVE_FIELD, ...WEBHOOK_FIELDS]}
      />
    </>
  )
}
