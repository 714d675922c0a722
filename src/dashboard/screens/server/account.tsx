/** @module One account as the operator sees it: whether it may send, why not, and its rates; pauses and resumes it. */
import { Alert, Group, Stack, Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { OperatorAccount, PauseOperatorAccountRequest } from '#client/operator-api.ts'
import { api, read } from '../../api/client.ts'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { formatCount, toTitle } from '../../parts/format.ts'
import { TextLink } from '../../parts/links.tsx'
import { Facts, Section } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import { AccountLink } from './account-link.tsx'
import { AccountBadge, formatQuota } from './accounts.tsx'
import { toSourceName } from './format.ts'
import { ServerPage } from './frame.tsx'
import { useOne } from './queries.ts'

const route = getRouteApi('/server/accounts/$id')

export default function AccountScreen() {
  const { id } = route.useParams()
  const query = useOne(read.operator.getAccount(id))
  const account = query.data
  return (
    <ServerPage
      title={toTitle(account?.name || 'Account')}
      query={query}
      action={account && (account.paused_at === null ? <Pause account={account} /> : <Resume account={account} />)}
    >
      {(found) => (
        <Stack gap="lg">
          <Account account={found} />
        </Stack>
      )}
    </ServerPage>
  )
}

function Account({ account }: { readonly account: OperatorAccount }) {
  const { id, paused, stopped, disabled_at: disabledAt } = account
  return (
    <>
      {stopped === null ? (
        <StatusLabel tone="good">It may send</StatusLabel>
      ) : (
        <Alert color="red" title="It may not send">
          <Text>
            <bdi>{stopped}</bdi>
          </Text>
          {paused && (
            <Text size="sm">
              Since <Time iso={paused.since} />, by: {toSourceName(paused.source)}
              {account.paused_at === null && '; the pause is that of its parent account'}.
            </Text>
          )}
          {account.held > 0 && <Text size="sm">Mail to {formatCount(account.held, 'recipient')} is held.</Text>}
        </Alert>
      )}
      <Facts
        facts={[
          ['State', <AccountBadge key="state" account={account} />],
          ['Id', account.id],
          ['Owner', account.email],
          ['Plan', account.plan],
          [
            'Parent account',
            account.parent_account_id && (
              <AccountLink key="parent" id={account.parent_account_id} name={account.parent_account_id} />
            ),
          ],
          ['Disabled', disabledAt && <Time key="disabled" iso={disabledAt} />],
          ['Recipients this month', formatQuota(account)],
          ['Created', <Time key="created" iso={account.created_at} />],
          ['Team', account.members.map(({ email, role }) => `${email} (${role})`).join(', ')],
        ]}
      />
      <Rates account={account} />
      <Group gap="md" component="nav" aria-label="More about this account">
        <TextLink to="/server/queue" search={{ account_id: id }}>
          Its queue
        </TextLink>
        <TextLink to="/server/findings" search={{ account_id: id }}>
          Its findings
        </TextLink>
        <TextLink to="/server/complaints" search={{ account_id: id }}>
          Its complaints
        </TextLink>
      </Group>
    </>
  )
}

const formatRate = (rate: number | null, unit: string): string => (rate === null ? 'no data yet' : `${rate} ${unit}`)

function Rates({ account }: { readonly account: OperatorAccount }) {
  const { last_24_hours: day, thresholds, last_30_days: month, judged } = account
  return (
    <Section title="Rates">
      <Facts
        facts={[
          [
            'Last 24 hours',
            `${day.delivered.toLocaleString()} delivered, ${day.bounced.toLocaleString()} bounced, ${day.complained.toLocaleString()} complained`,
          ],
          ['Bounces', `${formatRate(day.bounce_percent, '%')}; paused at ${thresholds.bounce_percent} %`],
          [
            'Complaints',
            `${formatRate(day.complaints_per_mille, 'per 1,000')}; paused at ${thresholds.complaints_per_mille} per 1,000`,
          ],
          [
            'Last 30 days',
            `${formatCount(month.complaints, 'complaint')} for ${month.delivered.toLocaleString()} delivered${month.rate === null ? '' : `: ${(month.rate * 1000).toFixed(2)} per 1,000`}`,
          ],
        ]}
      />
      <Text size="sm" c="dimmed" mt="xs">
        {judged
          ? `The rates count from ${thresholds.minimum_volume.toLocaleString()} recipients on.`
          : 'Its plan is not watched (abuse_watch in TASSIS_PLANS): its rates never pause it.'}
      </Text>
    </Section>
  )
}

const Pause = ({ account: { id, name } }: { readonly account: OperatorAccount }) => (
  <ConfirmButton
    key="pause"
    label="Pause this account"
    variant="filled"
    color="red.8"
    title="Pause this account?"
    confirm="Pause"
    done="The account is paused."
    fields={[
      {
        name: 'reason',
        label: 'Reason',
        kind: 'lines',
        hint: 'One sentence; the users of the account read it.',
        isRequired: true,
      },
    ]}
    refreshes={['operator']}
    run={(body: PauseOperatorAccountRequest) => api.operator.pauseAccount(id, body)}
  >
    <Text>
      <bdi>{name}</bdi> cannot send until it is resumed. Its queued mail is held, its tracked links are blocked, and its
      owners are told by mail.
    </Text>
  </ConfirmButton>
)

const Resume = ({ account: { id, name, held } }: { readonly account: OperatorAccount }) => (
  <ConfirmButton
    key="resume"
    label="Resume this account"
    variant="filled"
    title="Resume this account?"
    confirm="Resume"
    isDangerous={false}
    refreshes={['operator']}
    run={() => api.operator.resumeAccount(id)}
    done={({ data: { released, released_is_at_least: isAtLeast, still_stopped: block } }) =>
      block === null && released === 0 && !isAtLeast
        ? 'The account is resumed. No mail was held.'
        : block === null
          ? `The account is resumed. ${isAtLeast ? 'At least the' : 'The'} held mail to ${formatCount(released, 'recipient')} is queued again.`
          : `The account is resumed, but still may not send: ${block}`
    }
  >
    <Text>
      <bdi>{name}</bdi> can send again. Its bounces and complaints until now no longer count.
    </Text>
    {held > 0 && <Text>The held mail, to {formatCount(held, 'recipient')}, is sent.</Text>}
  </ConfirmButton>
)
