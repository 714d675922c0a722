/** @module The team: members with their roles, and open invitations. */
import { Alert, Group, List, Stack, Text } from '@mantine/core'
import type { TeamInvitation, TeamMember, UpdateTeamMemberRequest } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { usePage } from '../../api/data.ts'
import { SESSION, useAllowed, useSession } from '../../api/session.tsx'
import { ConfirmButton, DialogButton } from '../../parts/dialog.tsx'
import { TextLink } from '../../parts/links.tsx'
import { ListView, useList } from '../../parts/list.tsx'
import { QueryView, Section } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { type Column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { useKnownActors } from './audit-actors.ts'
import { SettingsPage } from './frame.tsx'
import { InvitationActions, InviteDialog } from './invite.tsx'
import { useRoleField } from './role-field.tsx'

/** More than there can be. */
const MAX_INVITATIONS = 100

export default function TeamScreen() {
  const invitations = usePage(read.team.listInvitations({ per_page: MAX_INVITATIONS }))
  return (
    <SettingsPage
      title="Team"
      action={
        <DialogButton label="Invite somebody" needs="admin">
          {(close) => <InviteDialog onClose={close} />}
        </DialogButton>
      }
    >
      <Section title="Members">
        <MemberTable />
      </Section>
      <Section title="Open invitations">
        <QueryView query={invitations}>
          {({ data }) =>
            data.length === 0 ? (
              <Text>
                Nobody is invited at the moment. An invitation is a link by mail, valid for 7 days; it appears here
                until it is accepted.
              </Text>
            ) : (
              <InvitationTable invitations={data} />
            )
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
  const columns: readonly Column<TeamMember>[] = [
    {
      header: 'Member',
      width: '29%',
      cell: (member) => (
        <Stack gap={0}>
          <Text size="sm" fw={600} title={member.email}>
            <bdi>{member.email}</bdi>
            {member.id === user.id && ' (you)'}
          </Text>
          {member.name !== '' && (
            <Text size="sm" lineClamp={2} title={member.name}>
              <bdi>{member.name}</bdi>
            </Text>
          )}
        </Stack>
      ),
    },
    { header: 'Role', width: '16%', cell: ({ role }) => role },
    {
      header: 'Last sign-in',
      width: '25%',
      cell: ({ last_login_at: at, totp_enabled: hasApp }) => (
        <Stack gap={0}>
          <Text size="sm">{at === null ? 'Never' : <Time iso={at} />}</Text>
          <StatusLabel tone={hasApp ? 'good' : 'neutral'}>{hasApp ? 'Authenticator' : 'No authenticator'}</StatusLabel>
        </Stack>
      ),
    },
    {
      header: 'Actions',
      width: '30%',
      cell: (member) => (
        <Group gap="xs">
          <RoleButton member={member} reason={reasonFor(member)} />
          <RemoveButton member={member} reason={reasonFor(member)} />
          <TextLink to="/settings/audit" search={{ actor_id: member.id }} aria-label={`Changes by ${member.email}`}>
            Changes
          </TextLink>
        </Group>
      ),
    },
  ]
  return <ListView list={list} label="Members" columns={columns} noun="member" empty={null} />
}

function InvitationTable({ invitations }: { readonly invitations: readonly TeamInvitation[] }) {
  const { users, keys } = useKnownActors()
  const toInviter = (id: string): string => {
    if (id === 'cli') return 'The operator of this server'
    const key = keys.get(id)
    return users.get(id) ?? (key === undefined ? 'An API key' : `API key ${key}`)
  }
  const columns: readonly Column<TeamInvitation>[] = [
    { header: 'Address', width: '30%', cell: ({ email }) => <bdi>{email}</bdi> },
    { header: 'Role', width: '17%', cell: ({ role }) => role },
    { header: 'Invited by', cell: ({ invited_by: id }) => <bdi>{toInviter(id)}</bdi> },
    { header: 'Valid until', width: '15%', cell: ({ expires_at: at }) => <Time iso={at} /> },
    { header: 'Actions', width: '22%', cell: (invitation) => <InvitationActions invitation={invitation} /> },
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
      confirm="Change the role"
      isDangerous={false}
      fields={[field]}
      initial={member}
      // The session has the role of its user.
      refreshes={['team', SESSION]}
      run={(body: UpdateTeamMemberRequest) => api.team.updateMember(member.id, body)}
      footer={({ values: { role } }) =>
        member.id === user.id &&
        role !== member.role && (
          <Alert color="yellow" title="This is you">
            Another owner or admin must give the role back to you.
          </Alert>
        )
      }
    >
      <Text size="sm">The new role applies from the next request on, also in browsers that are open.</Text>
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
