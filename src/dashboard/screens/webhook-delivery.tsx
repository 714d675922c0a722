/** @module One delivery of a webhook: what was posted, what came back, and sending it again. */
import { Code, Group, Stack, Switch, Text } from '@mantine/core'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import type { Webhook, WebhookDelivery, WebhookDeliverySummary } from '#client/api.ts'
import { api } from '../api/client.ts'
import { Copy } from '../parts/copy.tsx'
import { ConfirmButton } from '../parts/dialog.tsx'
import { bindChecked } from '../parts/form.tsx'
import { formatDuration } from '../parts/format.ts'
import { TextLink } from '../parts/links.tsx'
import { LongText } from '../parts/long-text.tsx'
import { Facts, Page, QueryView, Section, useEscape } from '../parts/page.tsx'
import { Time } from '../parts/time.tsx'
import { DeliveryStatus } from './webhooks/marks.tsx'
import { useDelivery, useWebhook } from './webhooks/queries.ts'
import { toPrettyJson, toWebhookName } from './webhooks/state.ts'

export default function WebhookDeliveryScreen() {
  const { id, deliveryId } = useParams({ from: '/webhooks/$id/deliveries/$deliveryId' })
  const webhook = useWebhook(id)
  const query = useDelivery(id, deliveryId)
  const navigate = useNavigate()
  useEscape(() => void navigate({ to: '/webhooks/$id', params: { id } }))
  return (
    <Page title={query.data ? `Delivery: ${query.data.event}` : 'Delivery'}>
      <nav aria-label="Path">
        <Group gap="xs">
          <TextLink to="/webhooks">All webhooks</TextLink>
          <span aria-hidden="true">/</span>
          <TextLink to="/webhooks/$id" params={{ id }}>
            <bdi>{webhook.data ? toWebhookName(webhook.data) : 'This webhook'}</bdi>
          </TextLink>
        </Group>
      </nav>
      <QueryView query={query}>
        {(delivery) => (
          <Stack gap="xl" key={delivery.id}>
            <Summary delivery={delivery} webhook={webhook.data} />
            <Request delivery={delivery} url={webhook.data?.url} />
            <Response delivery={delivery} />
          </Stack>
        )}
      </QueryView>
    </Page>
  )
}

interface SummaryProps {
  readonly delivery: WebhookDelivery
  readonly webhook: Webhook | undefined
}

function Summary({ delivery, webhook }: SummaryProps) {
  return (
    <Stack gap="sm">
      <DeliveryStatus delivery={delivery} />
      <Text maw={720}>
        <Sentence delivery={delivery} />
      </Text>
      <Facts
        facts={[
          ['Attempts', String(delivery.attempts)],
          ['Created', <Time key="created" iso={delivery.created_at} />],
          ['Last attempt', delivery.attempted_at && <Time key="last" iso={delivery.attempted_at} />],
          ['Next attempt', delivery.next_attempt_at && <Time key="next" iso={delivery.next_attempt_at} />],
          [
            'Email',
            delivery.email_id && (
              <TextLink key="email" to="/emails/$id" params={{ id: delivery.email_id }}>
                {delivery.email_id}
              </TextLink>
            ),
          ],
          ['Event id', delivery.event_id],
          ['Position', delivery.seq === null ? null : String(delivery.seq)],
        ]}
      />
      <Replay delivery={delivery} webhook={webhook} />
    </Stack>
  )
}

function Sentence({ delivery }: { readonly delivery: WebhookDeliverySummary }) {
  const { status, attempts, next_attempt_at: next, status_code: code, duration_ms: ms, error, event } = delivery
  if (status === 'delivered')
    return (
      <>
        Your server accepted it with {code} after {formatDuration(ms)}.
      </>
    )
  if (status === 'pending' && attempts === 0) return <>It is about to be sent.</>
  if (status === 'pending' && next !== null)
    return (
      <>
        {error} The next attempt is at <Time iso={next} />.
      </>
    )
  return (
    <>
      {error ?? 'It was not delivered.'}{' '}
      {event === 'test' ? 'A test event is sent once.' : 'No further attempt follows; you can replay it.'}
    </>
  )
}

const Replay = ({ delivery, webhook }: SummaryProps) => (
  <Group>
    <ConfirmButton
      label="Replay this delivery"
      size="xs"
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
          >
            a new delivery
          </TextLink>
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
  </Group>
)

function findReplayRefusal({ payload, event }: WebhookDelivery, webhook: Webhook | undefined): string | undefined {
  if (payload === null) return 'The event is no longer kept, so there is nothing to send.'
  if (webhook && !webhook.is_active) return 'The webhook is not active; activate it first.'
  if (webhook && event !== 'test' && !webhook.events.includes(event))
    return `The webhook no longer subscribes to ${event}.`
  return undefined
}

function Request({ delivery, url }: { readonly delivery: WebhookDelivery; readonly url: string | undefined }) {
  const [isExact, setIsExact] = useState(false)
  const { payload, headers } = delivery
  return (
    <Section title="Request">
      {url !== undefined && (
        <Text size="sm">
          <Code>POST</Code> <bdi>{url}</bdi>
        </Text>
      )}
      {headers && (
        <>
          <Facts facts={Object.entries(headers).map(([name, value]) => [name, <Code key={name}>{value}</Code>])} />
          {!Object.keys(headers).some((name) => /signature$/i.test(name)) && (
            <Text size="sm">
              The signature is not shown: the secret was replaced after this attempt, or your role may not change
              webhooks.
            </Text>
          )}
        </>
      )}
      {payload === null ? (
        <Text>The event is no longer kept, so its payload cannot be shown.</Text>
      ) : (
        <>
          <Group gap="xs">
            <Switch size="xs" label="As posted" {...bindChecked(isExact, setIsExact)} />
            <Copy value={payload} what="payload as posted" />
            <Text size="sm" c="dimmed">
              {new TextEncoder().encode(payload).length.toLocaleString()} bytes
            </Text>
          </Group>
          <LongText label="Payload" text={isExact ? payload : toPrettyJson(payload)} />
          <Text size="sm" c="dimmed" maw={720}>
            It is built from stored data. What belongs to a person who was erased is missing here, even if it was
            posted.
          </Text>
        </>
      )}
    </Section>
  )
}

function Response({ delivery }: { readonly delivery: WebhookDelivery }) {
  const { status_code: code, response, error, duration_ms: ms, attempted_at: at } = delivery
  return (
    <Section title="Response">
      {at === null ? (
        <Text>There is none yet.</Text>
      ) : (
        <Facts
          facts={[
            ['Status', code === null ? 'No response' : <Code key="code">{code}</Code>],
            ['Duration', formatDuration(ms)],
            ['Error', error],
          ]}
        />
      )}
      {response ? (
        <>
          <LongText label="Body of the response" text={response} />
          <Text size="sm" c="dimmed">
            At most the first 1,000 bytes are stored.
          </Text>
        </>
      ) : (
        at !== null && code !== null && <Text size="sm">The body was empty, or is not stored.</Text>
      )}
    </Section>
  )
}
