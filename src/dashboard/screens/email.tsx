/** @module One email: what happened to it, what happens next, its content, and what can be done. */
import { Anchor, Paper, Stack, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useRouter } from '@tanstack/react-router'
import type { EmailDetail } from '#features/sending/emails/model.ts'
import { ApiError, get } from '../api/client.ts'
import { readAgain, useLiveEvents, useRefreshSoon } from '../api/live.tsx'
import { formatBytes, toTitle } from '../parts/format.ts'
import { SmallLink } from '../parts/links.tsx'
import { Mailbox } from '../parts/mailbox.tsx'
import { Facts, Page, QueryView, Section, useEscape } from '../parts/page.tsx'
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
  const { history } = useRouter()
  const navigate = route.useNavigate()
  const query = useQuery({
    queryKey: ['email', id],
    queryFn: ({ signal }) => readEmail(id, signal),
  })
  const refreshSoon = useRefreshSoon(() => readAgain(query), REFRESH_INTERVAL_MS)
  useLiveEvents((event) => {
    if (event.email_id === id) refreshSoon()
  })
  useEscape(() => {
    // Back to the list as it was, with its filters and page.
    if (history.canGoBack()) history.back()
    else void navigate({ to: '/emails' })
  })
  return (
    <Page title={query.data ? toTitle(query.data.subject) : 'Email'}>
      <SmallLink to="/emails">All emails</SmallLink>
      {query.error instanceof ApiError && query.error.status === 404 && !query.data ? (
        <Text>This account has no email with this id. It may have been deleted, or belong to another account.</Text>
      ) : (
        <QueryView query={query}>{(email) => <EmailView key={email.id} email={email} />}</QueryView>
      )}
    </Page>
  )
}

async function readEmail(id: string, signal: AbortSignal): Promise<EmailDetail> {
  const { data } = await get<{ data: EmailDetail }>(`/v1/emails/${encodeURIComponent(id)}`, {}, signal)
  return data
}

function EmailView({ email }: { readonly email: EmailDetail }) {
  const { tab } = route.useSearch()
  const navigate = route.useNavigate()
  return (
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
        <EmailContent
          email={email}
          tab={tab}
          onTab={(next) => void navigate({ search: { tab: next }, replace: true, resetScroll: false })}
        />
      </Section>
      <Section title="Details">
        <EmailFacts email={email} />
      </Section>
    </Stack>
  )
}

const EmailFacts = ({ email }: { readonly email: EmailDetail }) => (
  <Facts
    facts={[
      ['Subject', email.subject],
      ['From', <Mailbox key="from" text={email.from_address} />],
      ['To', email.to],
      ['Cc', email.cc.join(', ')],
      ['Bcc', email.bcc.join(', ')],
      ['Accepted', <Time key="accepted" iso={email.created_at} isExact />],
      ['Scheduled for', email.scheduled_at && <Time iso={email.scheduled_at} isExact />],
      ['Deadline', email.expires_at && <Time iso={email.expires_at} isExact />],
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

/** A link to the email that this one repeats. */
function toOriginalLink(email: EmailDetail) {
  const { resend_of: original } = email as { readonly resend_of?: unknown }
  if (typeof original !== 'string') return null
  return (
    <Anchor component={Link} to="/emails/$id" params={{ id: original } as never} size="sm">
      {original}
    </Anchor>
  )
}
