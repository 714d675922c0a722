/** @module The team: members with their roles, and open invitations. */
import { Group, List, Text } from '@mantine/core'
import type {
  CreateTeamInvitationRequest,
  CreateTeamInvitationResult,
  TeamInvitation,
  TeamMember,
  UpdateTeamMemberRequest,
} from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { usePage } from '../../api/data.ts'
import { SESSION, useAllowed, useSession } from '../../api/session.tsx'
import { RunButton } from '../../parts/buttons.tsx'
import { ConfirmButton, FormButton } from '../../parts/dialog.tsx'
import { quote } from '../../parts/format.ts'
import { NameLink } from '../../parts/links.tsx'
import { ListView, useList } from '../../parts/list.tsx'
import { CommandBlock, QueryView, Section, useSay } from '../../parts/page.tsx'
import { Notice } from '../../parts/status.tsx'
import { type Column, column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { useKnownActors } from '../queries.ts'
import { SettingsPage, toRoleWord, useRoleField } from './frame.tsx'

/** More than there can be. */
const MAX_INVITATIONS = 100

export default function TeamScreen() {
  const invitations = usePage(read.team.listInvitations({ per_page: MAX_INVITATIONS }))
  return (
    <SettingsPage title="Team" action={<InviteButton />}>
      <Section title="Members">
        <MemberTable />
      </Section>
      <Section title="Open invitations" description="A link by mail, valid for 7 days.">
        <QueryView query={invitations}>
          {({ data }) =>
            data.length === 0 ? <Text>Nobody is invited at the moment.</Text> : <InvitationTable invitations={data} />
          }
        </QueryView>
      </Section>
    </SettingsPage>
  )
}

function MemberTable() {
  const list = useList({ read: read.team.listMembers })
  const { user, role: ownRole } = useSession()
  const adminReason = useAllowed('admin')
  /** The reason is also that of the server: only owners change owners. */
  const reasonFor = ({ role }: TeamMember): string | undefined =>
    adminReason ?? (role === 'owner' && ownRole !== 'owner' ? 'Only an owner can change or remove owners.' : undefined)
  const { data: members = [], pagination } = list.page ?? {}
  const isOnlyOwner =
    pagination?.next_cursor === undefined && members.filter(({ role }) => role === 'owner').length === 1
  const columns: readonly Column<TeamMember>[] = [
    column('Member', { width: '36%', isWrapped: true }, ({ id, email, name }) => (
      <>
        <NameLink to="/settings/audit" search={{ actor_id: id }} title="Show the changes by this member">
          {email}
        </NameLink>
        {id === user.id && ' (you)'}
        {name !== '' && !email.startsWith(`${name}@`) && (
          <div className="cell-note">
            <bdi>{name}</bdi>
          </div>
        )}
      </>
    )),
    column('Role', { width: '12%', phone: 'aside' }, ({ role }) => toRoleWord(role)),
    column('Second factor', { width: '14%', phone: 'none' }, ({ totp_enabled: isOn }) => (isOn ? 'On' : 'Off')),
    column('Last sign-in', {}, ({ last_login_at: at }) => (at === null ? 'Never' : <Time iso={at} />)),
    column('Actions', { width: '14rem', isNumeric: true, phone: 'bare' }, (member) => (
      <Group gap="xs" justify="flex-end" wrap="nowrap" className="row-actions">
        <RoleButton member={member} reason={reasonFor(member)} />
        {!(isOnlyOwner && member.role === 'owner') && <RemoveButton member={member} reason={reasonFor(member)} />}
      </Group>
    )),
  ]
  return <ListView list={list} columns={columns} noun="member" empty={null} />
}

function InvitationTable({ invitations }: { readonly invitations: readonly TeamInvitation[] }) {
  const { users, keys } = useKnownActors()
  const toInviter = (id: string): string => {
    if (id === 'cli') return 'The operator of this server'
    const key = keys.get(id)
    return users.get(id) ?? (key === undefined ? 'An API key' : `API key ${key}`)
  }
  const columns: readonly Column<TeamInvitation>[] = [
    column('Address', { width: '36%' }, ({ email }) => <bdi>{email}</bdi>),
    column('Role', { width: '12%', phone: 'aside' }, ({ role }) => toRoleWord(role)),
    column('Invited by', {}, ({ invited_by: id }) => <bdi>{toInviter(id)}</bdi>),
    column('Valid until', { width: '15%' }, ({ expires_at: at }) => <Time iso={at} />),
    column('Actions', { width: '14rem', isNumeric: true, phone: 'bare' }, (invitation) => (
      <InvitationActions invitation={invitation} />
    )),
  ]
  return <DataTable label="Open invitations" columns={columns} rows={invitations} toKey={({ email }) => email} />
}

interface MemberProps {
  readonly member: TeamMember
  readonly reason: string | undefined
}

function RoleButton({ member, reason }: MemberProps) {
  const { user } = useSession()
  const field = useRoleField()
  return (
    <ConfirmButton
      label="Change role"
      aria-label={`Change role of ${member.email}`}
      size="compact-sm"
      reason={reason}
      title={`Role of ${member.email}`}
      confirm="Save"
      isDangerous={false}
      fields={[field]}
      initial={member}
      // The session has the role of its user.
      refreshes={['team', SESSION]}
      run={(body: UpdateTeamMemberRequest) => api.team.updateMember(member.id, body)}
      footer={({ values: { role } }) =>
        member.id === user.id &&
        role !== member.role && (
          <Notice tone="warning" title="This is you">
            Another owner or admin must give the role back to you.
          </Notice>
        )
      }
    >
      It applies from the next request on.
    </ConfirmButton>
  )
}

function RemoveButton({ member, reason }: MemberProps) {
  const { user, account } = useSession()
  const isSelf = member.id === user.id
  return (
    <ConfirmButton
      label={isSelf ? 'Leave' : 'Remove'}
      aria-label={isSelf ? 'Leave the team' : `Remove ${member.email}`}
      size="compact-sm"
      reason={reason}
      title={isSelf ? 'Leave this team?' : 'Remove this member?'}
      confirm={isSelf ? 'Leave the team' : 'Remove'}
      refreshes={['team']}
      run={() => api.team.removeMember(member.id)}
      // Whoever leaves has no session any more: this page would only ask to sign in again.
      onDone={() => isSelf && location.assign('/login')}
    >
      <Text>
        <bdi>{member.email}</bdi> will no longer belong to <bdi>{account.name}</bdi>:
      </Text>
      <List size="sm">
        <List.Item>All browsers in which they are signed in here are signed out immediately.</List.Item>
        <List.Item>Invitations that they sent are no longer valid.</List.Item>
        <List.Item>API keys that they created stay: they belong to the account. Delete those that they know.</List.Item>
        <List.Item>A user who belongs to no other account is deleted.</List.Item>
      </List>
    </ConfirmButton>
  )
}

/** Another invitation of the same address replaces the first. */
const InviteButton = () => (
  <FormButton
    label="Invite somebody"
    needs="admin"
    confirm="Invite"
    fields={[
      {
        name: 'email',
        label: 'Email address',
        kind: 'email',
        hint: 'It gets a link by mail, valid for 7 days, once.',
        isRequired: true,
      },
      useRoleField(),
    ]}
    initial={{ role: 'developer' }}
    refreshes={['team']}
    run={api.team.invite}
    done={({ data }) => <Invited invitation={data} />}
  />
)

/** What became of the mail. The link itself is in the mail only: it proves who reads the address. */
const Invited = ({ invitation }: { readonly invitation: CreateTeamInvitationResult }) =>
  invitation.email_sent ? (
    <>
      A mail with the link goes to <bdi>{invitation.email}</bdi>. It is valid until <Time iso={invitation.expires_at} />
      , once.
    </>
  ) : (
    <MailMissing {...invitation} />
  )

function MailMissing({ email, role }: CreateTeamInvitationResult) {
  const { account } = useSession()
  return (
    <>
      <Text>
        The invitation of <bdi>{email}</bdi> is stored, but this service has no verified domain from which it could send
        the mail. Verify a domain, then send the invitation again.
      </Text>
      <Text>Or the operator of this server adds the user with this command, which prints a link:</Text>
      <CommandBlock command={`tassis users create ${quote(email)} --role ${role} --account ${account.id}`} />
    </>
  )
}

function InvitationActions({ invitation }: { readonly invitation: TeamInvitation }) {
  const { email, role } = invitation
  const { role: ownRole } = useSession()
  const say = useSay()
  return (
    <Group gap="xs" justify="flex-end" className="row-actions">
      <RunButton
        label="Send again"
        aria-label={`Send again to ${email}`}
        size="compact-sm"
        variant="default"
        needs="admin"
        reason={role === 'owner' && ownRole !== 'owner' ? 'Only an owner can invite owners.' : undefined}
        refreshes={['team']}
        run={() => api.team.invite({ email, role: role as CreateTeamInvitationRequest['role'] })}
        onDone={({ data }) => say(<Invited invitation={data} />)}
      />
      <ConfirmButton
        label="Remove"
        size="compact-sm"
        needs="admin"
        aria-label={`Remove the invitation of ${email}`}
        title="Remove this invitation?"
        refreshes={['team']}
        run={() => api.team.deleteInvitation(invitation.id)}
      >
        <Text>
          The link that was sent to <bdi>{email}</bdi> becomes invalid immediately.
        </Text>
      </ConfirmButton>
    </Group>
  )
}
