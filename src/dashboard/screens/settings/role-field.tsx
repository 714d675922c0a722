/** @module The choice of a role, with what each allows. */
import { useSession } from '../../api/session.tsx'
import type { Field } from '../../parts/fields.ts'

const ROLES = [
  { value: 'owner', text: 'May do everything, also delete the account, buy a plan and change owners.' },
  { value: 'admin', text: 'May do everything else: team, API keys, settings, sub-accounts, exports.' },
  { value: 'developer', text: 'May send and set up mail: domains, templates, webhooks, contacts.' },
  { value: 'viewer', text: 'May read everything, also received mail, and change nothing.' },
  { value: 'support', text: 'May find mail and people and remove suppressions. Sees no bodies, links or attachments.' },
]

export function useRoleField(): Field<'role'> {
  const { role } = useSession()
  const options = ROLES.map(({ value, text }) => {
    const disabled = value === 'owner' && role !== 'owner'
    const description = disabled ? `${text} Only an owner can choose this.` : text
    return { value, label: value, description, disabled }
  })
  return { name: 'role', label: 'Role', kind: 'radio', options }
}
