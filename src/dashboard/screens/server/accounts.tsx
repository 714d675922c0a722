/** @module All accounts of the service; and one of them: whether it may send, why not, its rates; pauses it. */
import { Group, Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { OperatorAccount, OperatorAccountSummary, PauseOperatorAccountRequest } from '#client/operator-api.ts'
import { api, read } from '../../api/client.ts'
import { CopyText } from '../../parts/copy.tsx'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { toWords } from '../../parts/fields.ts'
import { Figures } from '../../parts/figures.tsx'
import { formatCount, toTitle } from '../../parts/format.ts'
import { ButtonLink, NameLink, TextLink } from '../../parts/links.tsx'
import { Facts, Section } from '../../parts/page.tsx'
import { Notice, StatusLabel } from '../../parts/status.tsx'
import { type Column, column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { ACCOUNT_FILTERS } from '../filters.ts'
import { toSourceName } from './format.ts'
import { ServerList, ServerPage, useOne } from './frame.tsx'

const AccountBadge = ({
  account: { paused_at: pausedAt, disabled_at: disabledAt },
}: {
  readonly account: Pick<OperatorAccountSummary, 'paused_at' | 'disabled_at'>
}) =>
  pausedAt !== null ? (
    <StatusLabel tone="bad">Paused</StatusLabel>
  ) : disabledAt !== null ? (
    <StatusLabel tone="neutral">Disabled</StatusLabel>
  ) : (
    <StatusLabel tone="good">Active</StatusLabel>
  )

const formatQuota = ({
  used_this_month: used,
  monthly_quota: quota,
}: Pick<OperatorAccountSummary, 'used_this_month' | 'monthly_quota'>): string =>
  quota === null ? used.toLocaleString() : `${used.toLocaleString()} of ${quota.toLocaleString()}`

const COLUMNS: readonly Column<OperatorAccountSummary>[] = [
  column('Account', {}, ({ id, name }) => (
    <NameLink to="/server/accounts/$id" params={{ id }} name={name || '(no name)'} />
  )),
  column('Status', { width: '8rem', phone: 'aside' }, (account) => <AccountBadge account={account} />),
  column('Owner', { phone: 'bare' }, ({ email }) => <bdi title={email}>{email}</bdi>),
  column('Plan', { width: '9rem', phone: 'none' }, ({ plan, parent_account_id: parent }) =>
    parent === null ? plan : 'Sub-account',
  ),
  column('Recipients this month', { width: '12rem', isNumeric: true, phone: 'none' }, formatQuota),
  column('Created', { width: '9rem', isNumeric: true, phone: 'bare' }, ({ created_at: at }) => <Time iso={at} />),
]

const AccountsScreen = () => (
  <ServerList
    title="Accounts"
    read={read.operator.listAccounts}
    filters={ACCOUNT_FILTERS}
    columns={COLUMNS}
    noun="account"
    nothing={{ title: 'There is no account', command: 'tassis accounts create --help' }}
    advice="Search for a part of the name or of the owner’s address, or for the whole id."
  />
)
export default AccountsScreen

const route = getRouteApi('/server/accounts/$id')

export function AccountScreen() {
  const { id } = route.useParams()
  const query = useOne(read.operator.getAccount(id))
  const account = query.data
  return (
    <ServerPage
      title={toTitle(account?.name || 'Account')}
      back={{ label: 'Accounts', target: { to: '/server/accounts' } }}
      query={query}
      {...(account && {
        status: <AccountBadge account={account} />,
        action: account.paused_at === null ? <Pause account={account} /> : <Resume account={account} />,
      })}
    >
      {(found) => <Account account={found} />}
    </ServerPage>
  )
}

function Account({ account }: { readonly account: OperatorAccount }) {
  const { id, paused, stopped, disabled_at: disabledAt } = account
  return (
    <>
      {stopped === null ? (
        <Notice tone="good" title="It may send" />
      ) : (
        <Notice tone="bad" title="It may not send">
          <bdi>{stopped}</bdi>
          {paused && (
            <div>
              Since <Time iso={paused.since} />, by: {toSourceName(paused.source)}
              {account.paused_at === null && '; the pause is that of its parent account'}.
            </div>
          )}
          {account.held > 0 && <div>Mail to {formatCount(account.held, 'recipient')} is held.</div>}
        </Notice>
      )}
      <Group gap="xs" component="nav" aria-label="More about this account">
        <ButtonLink to="/server/queue" search={{ account_id: id }} variant="default" size="xs" name="Its queue" />
        <ButtonLink to="/server/findings" search={{ account_id: id }} variant="default" size="xs" name="Its findings" />
        <ButtonLink to="/server/complaints" search={{ account_id: id }} variant="default" size="xs">
          Its complaints
        </ButtonLink>
      </Group>
      <Rates account={account} />
      <Section title="Account">
        <Facts
          facts={[
            ['Owner', account.email],
            ['Team', account.members.map(({ email, role }) => `${email} (${toWords(role)})`).join(', ')],
            ['Plan', account.plan],
            ['Recipients this month', formatQuota(account)],
            [
              'Parent account',
              account.parent_account_id && (
                <TextLink key="parent" to="/server/accounts/$id" params={{ id: account.parent_account_id }}>
                  {account.parent_account_id}
                </TextLink>
              ),
            ],
            ['Created', <Time key="created" iso={account.created_at} isRelative />],
            ['Disabled', disabledAt && <Time key="disabled" iso={disabledAt} />],
            ['Id', <CopyText key="id" value={account.id} what="id of the account" />],
          ]}
        />
      </Section>
    </>
  )
}

const formatRate = (rate: number | null, unit: string): string => (rate === null ? '–' : `${rate} ${unit}`)

function Rates({ account }: { readonly account: OperatorAccount }) {
  const { last_24_hours: day, thresholds, last_30_days: month, judged } = account
  return (
    <Section
      title="Last 24 hours"
      description={
        judged
          ? `The rates count from ${thresholds.minimum_volume.toLocaleString()} recipients on.`
          : 'Its plan is not watched (abuse_watch in TASSIS_PLANS): its rates never pause it.'
      }
    >
      <Figures
        figures={[
          { label: 'Delivered', value: day.delivered, note: `${month.delivered.toLocaleString()} in 30 days` },
          {
            label: 'Bounce rate',
            value: formatRate(day.bounce_percent, '%'),
            note: `${day.bounced.toLocaleString()} bounced; paused at ${thresholds.bounce_percent} %`,
          },
          {
            label: 'Complaints per 1,000',
            value: formatRate(day.complaints_per_mille, ''),
            note: `${day.complained.toLocaleString()} complained; paused at ${thresholds.complaints_per_mille}`,
          },
          {
            label: 'Complaints in 30 days',
            value: month.complaints,
            note: month.rate === null ? 'no rate yet' : `${(month.rate * 1000).toFixed(2)} per 1,000`,
          },
        ]}
      />
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
