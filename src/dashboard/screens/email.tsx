/** @module One email: what happened to it, what happens next, its content, and what can be done. */
import { Paper, Stack, Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { Email } from '#client/api.ts'
import { read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { useReadAgainAfter } from '../api/live.tsx'
import { formatBytes, toTitle } from '../parts/format.ts'
import { TextLink } from '../parts/links.tsx'
import { Mailbox } from '../parts/mailbox.tsx'
import { Facts, RecordPage, Section, useBack } from '../parts/page.tsx'
import { StatusBadge } from '../parts/status.tsx'
import { Time } from '../parts/time.tsx'
import { EmailActions } from './emails/actions.tsx'
import { EmailContent } from './emails/content.tsx'
import { DeliveryLog } from './emails/delivery-log.tsx'
import { Timeline } from './emails/timeline.tsx'

const route = getRouteApi('/emails/$id')

const REFRESH_INTERVAL_MS = 1000
export default function EmailScreen() {
  const { id } = route.useParams()
  const query = useData(read.emails.get(id))
  useReadAgainAfter(query, (event) => event.email_id === id, REFRESH_INTERVAL_MS)
  return (
    <RecordPage
      title={query.data ? toTitle(query.data.subject) : 'Email'}
      list={{ to: '/emails' }}
      listName="All emails"
      query={query}
      missing="This account has no email with this id. It may have been deleted, or belong to another account."
      onEscape={useBack({ to: '/emails' })}
    >
      {(email) => <EmailView key={email.id} email={email} />}
    </RecordPage>
  )
}

const EmailView = ({ email }: { readonly email: Email }) => (
  <Stack gap="lg">
    <Paper withBorder p="md">
      <Stack gap="xs">
        <StatusBadge status={email.state} />
        <Text size="lg" role="status" data-sentence="">
          {email.sentence}
        </Text>
        <EmailActions email={email} />
      </Stack>
    </Paper>
    <Section title="Timeline">
      <Timeline email={email} />
    </Section>
    <Section title="Delivery log">
      <DeliveryLog id={email.id} />
    </Section>
    <Section title="Content">
      <EmailContent email={email} />
    </Section>
    <Section title="Details">
      <EmailFacts email={email} />
    </Section>
  </Stack>
)

const EmailFacts = ({ email }: { readonly email: Email }) => (
  <Facts
    facts={[
      ['Subject', email.subject],
      ['From', <Mailbox key="from" text={email.from_address} />],
      ['To', email.to],
      ['Cc', email.cc.join(', ')],
      ['Bcc', email.bcc.join(', ')],
      ['Accepted', <Time key="accepted" iso={email.created_at} />],
      ['Scheduled for', email.scheduled_at && <Time iso={email.scheduled_at} />],
      ['Deadline', email.expires_at && <Time iso={email.expires_at} />],
      ['Tags', email.tags.join(', ')],
      ['Attachments', email.attachments?.map(({ filename, size }) => `${filename} (${formatBytes(size)})`).join(', ')],
      ['Message-ID', email.message_id],
      ['Id', email.id],
      ['Repeats', toOriginalLink(email)],
      ['Idempotency key', email.idempotency_key],
      ['Metadata', Object.keys(email.metadata).length > 0 && JSON.stringify(email.metadata)],
    ]}
  />
)

function toOriginalLink(email: Email) {
  const { resend_of: original } = email as { readonly resend_of?: unknown }
  if (typeof original !== 'string') return null
  return (
    <TextLink to="/emails/$id" params={{ id: original }}>
      {original}
    </TextLink>
  )
}
