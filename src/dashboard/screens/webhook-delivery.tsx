/** @module One delivery of a webhook: what was posted, what came back, and sending it again. */
import { Code, Text } from '@mantine/core'
import { useParams } from '@tanstack/react-router'
import type { Webhook, WebhookDelivery, WebhookDeliverySummary } from '#client/api.ts'
import { api } from '../api/client.ts'
import { Copy } from '../parts/copy.tsx'
import { ConfirmButton } from '../parts/dialog.tsx'
import { formatCount, formatDuration } from '../parts/format.ts'
import { TextLink } from '../parts/links.tsx'
import { LongText } from '../parts/long-text.tsx'
import { Facts, RecordPage, Section } from '../parts/page.tsx'
import { Time } from '../parts/time.tsx'
import { DeliveryStatus, useDelivery, useWebhook } from './webhooks/marks.tsx'
import { toPrettyJson, toWebhookName } from './webhooks/state.ts'

export default function WebhookDeliveryScreen() {
  const { id, deliveryId } = useParams({ from: '/webhooks/$id/deliveries/$deliveryId' })
  const webhook = useWebhook(id).data
  const query = useDelivery(id, deliveryId)
  const known = query.data
  return (
    <RecordPage
      title={known ? `Delivery: ${known.event}` : 'Delivery'}
      list={{ to: '/webhooks/$id', params: { id } }}
      listName={<bdi>{webhook ? toWebhookName(webhook) : 'Webhook'}</bdi>}
      query={query}
      {...(known && {
        status: <DeliveryStatus delivery={known} />,
        description: <Sentence delivery={known} />,
        action: <Replay delivery={known} webhook={webhook} />,
      })}
    >
      {(delivery) => (
        <>
          <Response delivery={delivery} />
          <Request key={delivery.id} delivery={delivery} url={webhook?.url} />
          <Section title="Delivery">
            <Facts
              facts={[
                [
                  'Email',
                  delivery.email_id && (
                    <TextLink key="email" to="/emails/$id" params={{ id: delivery.email_id }}>
                      {delivery.email_id}
                    </TextLink>
                  ),
                ],
                ['Created', <Time key="created" iso={delivery.created_at} hasSeconds />],
                ['Last attempt', delivery.attempted_at && <Time key="last" iso={delivery.attempted_at} hasSeconds />],
                ['Attempts', String(delivery.attempts)],
                ['Duration', delivery.duration_ms !== null && formatDuration(delivery.duration_ms)],
                ['Event id', delivery.event_id && <Code key="event">{delivery.event_id}</Code>],
                ['Position', delivery.seq === null ? null : String(delivery.seq)],
              ]}
            />
          </Section>
        </>
      )}
    </RecordPage>
  )
}

interface ReplayProps {
  readonly delivery: WebhookDelivery
  readonly webhook: Webhook | undefined
}

function Sentence({ delivery }: { readonly delivery: WebhookDeliverySummary }) {
  const { status, attempts, next_attempt_at: next, status_code: code, duration_ms: ms, error, event } = delivery
  if (status === 'delivered') return `Your server accepted it with ${code} in ${formatDuration(ms)}.`
  if (status === 'pending' && attempts === 0) return 'It is about to be sent.'
  if (status === 'pending' && next !== null)
    return <Time before={`${error ?? ''} The next attempt is at `} iso={next} after="." />
  return (
    <>
      {error ?? 'It was not delivered.'}{' '}
      {event === 'test' ? 'A test event is sent once.' : 'It is not sent again, unless you replay it.'}
    </>
  )
}

const Replay = ({ delivery, webhook }: ReplayProps) => (
  <ConfirmButton
    label="Replay this delivery"
    needs="developer"
    reason={findReplayRefusal(delivery, webhook)}
    title="Replay this delivery?"
    confirm="Replay"
    isDangerous={false}
    refreshes={['webhooks']}
    run={() => api.webhooks.replayDelivery(delivery.webhook_id, delivery.id)}
    done={({ data }) => (
      <>
        It is sent again as{' '}
        <TextLink
          to="/webhooks/$id/deliveries/$deliveryId"
          params={{ id: delivery.webhook_id, deliveryId: data.id }}
          c="inherit"
          underline="always"
          name="a new delivery"
        />
        .
      </>
    )}
  >
    <Text>
      The same body is posted to <bdi>{webhook?.url}</bdi> again, as a new delivery, now.
      {delivery.status === 'delivered' && ' Your server has accepted it before, so it gets the event twice.'}
      {delivery.status === 'pending' && ' The planned attempt of this delivery is still made, too.'}
    </Text>
  </ConfirmButton>
)

function findReplayRefusal({ payload, event }: WebhookDelivery, webhook: Webhook | undefined): string | undefined {
  if (payload === null) return 'The event is no longer kept, so there is nothing to send.'
  if (webhook && !webhook.is_active) return 'The webhook is not active; activate it first.'
  if (webhook && event !== 'test' && !webhook.events.includes(event))
    return `The webhook no longer subscribes to ${event}.`
  return undefined
}

function Request({ delivery, url }: { readonly delivery: WebhookDelivery; readonly url: string | undefined }) {
  const { payload, headers } = delivery
  return (
    <Section
      title="Request"
      {...(payload !== null && { action: <Copy value={payload} what="payload as posted" /> })}
      {...(url !== undefined && {
        description: (
          <>
            POST <bdi>{url}</bdi>
          </>
        ),
      })}
    >
      {payload === null ? (
        <Text>The event is no longer stored, so its payload cannot be shown.</Text>
      ) : (
        <>
          <LongText label="Payload" text={toPrettyJson(payload)} />
          <Text size="xs" c="dimmed">
            {new TextEncoder().encode(payload).length.toLocaleString()} bytes, built from stored data: without what
            belongs to a person who was erased.
          </Text>
        </>
      )}
      {headers && (
        <details>
          <summary>{formatCount(Object.keys(headers).length, 'header')}</summary>
          <Facts facts={Object.entries(headers).map(([name, value]) => [name, <Code key={name}>{value}</Code>])} />
          {!Object.keys(headers).some((name) => /signature$/i.test(name)) && (
            <Text size="xs" c="dimmed">
              Without the signature: the secret was replaced since then, or your role may not change webhooks.
            </Text>
          )}
        </details>
      )}
    </Section>
  )
}

function Response({ delivery: { status_code: code, response } }: { readonly delivery: WebhookDelivery }) {
  if (code === null) return null
  return (
    <Section title="Response">
      {response ? (
        <>
          <LongText label="Body of the response" text={response} />
          {new TextEncoder().encode(response).length >= MAX_RESPONSE_BYTES && (
            <Text size="xs" c="dimmed">
              The first 1,000 bytes.
            </Text>
          )}
        </>
      ) : (
        <Text c="dimmed">The body was empty, or is not stored.</Text>
      )}
    </Section>
  )
}

/** What is stored of a longer one. */
const MAX_RESPONSE_BYTES = 1000
