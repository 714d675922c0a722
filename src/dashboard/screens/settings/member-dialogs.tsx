/** @module Changes the role of a member, or removes one. */
import { Alert, List, Text } from '@mantine/core'
import { useState } from 'react'
import type { TeamMember } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { SESSION, useSession } from '../../api/session.tsx'
import { ConfirmDialog } from '../../parts/form.tsx'

import { type Role, RoleField } from './role-field.tsx'

export type MemberDialogKind = 'role' | 'remove'

interface MemberDialogProps {
  readonly kind: MemberDialogKind
  readonly member: TeamMember
  onClose(): void
}

export const MemberDialog = ({ kind, ...props }: MemberDialogProps) =>
  kind === 'role' ? <RoleDialog {...props} /> : <RemoveDialog {...props} />

type DialogProps = Omit<MemberDialogProps, 'kind'>

function RoleDialog({ member, onClose }: DialogProps) {
  const [role, setRole] = useState(member.role as Role)
  const { user } = useSession()
  return (
    <ConfirmDialog
      title={`Role of ${member.email}`}
      confirm="Change the role"
      // The session has the role of its user.
      refreshes={['team', SESSION]}
      isIncomplete={role === member.role}
      run={() => api.team.updateMember(member.id, { role })}
      onClose={onClose}
    >
      <Text size="sm">The new role applies from the next request on, also in browsers that are open.</Text>
      <RoleField value={role} onChange={setRole} />
      {member.id === user.id && role !== member.role && (
        <Alert color="yellow" title="This is you">
          Another owner or admin must give the role back to you.
        </Alert>
      )}
    </ConfirmDialog>
  )
}

function RemoveDialog({ member, onClose }: DialogProps) {
  const { user, account } = useSession()
  const isSelf = member.id === user.id
  return (
    <ConfirmDialog
      title={isSelf ? 'Leave this team?' : 'Remove this member?'}
      confirm={isSelf ? 'Leave the team' : 'Remove'}
      isDangerous
      refreshes={['team']}
      run={() => api.team.removeMember(member.id)}
      // Whoever leaves has no session any more: this page would only ask to sign in again.
      onDone={() => (isSelf ? location.assign('/login') : onClose())}
      onClose={onClose}
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
    </ConfirmDialog>
  )
}
