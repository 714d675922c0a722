/** @module The account menu: who is signed in, accounts, colours, time zone, help. */
import { NativeSelect, useMantineColorScheme } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import { api, read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { announceAccount, SESSION, useSession } from '../api/session.tsx'
import { toWords } from './fields.ts'
import { bindText } from './form.tsx'
import { IconBook, IconCheck, IconKeyboard, IconLogout, IconUser } from './icons.ts'
import { AppLink } from './links.tsx'
import { Popover } from './popover.tsx'
import { getBrowserZone, setAccountZone, setZone, useZoneChoice } from './zone.ts'

const SCHEMES = [
  { value: 'auto', label: 'As the system' },
  { value: 'light', label: 'Light' },
  { value: 'dark', label: 'Dark' },
]

const ICON = { size: '1rem', 'aria-hidden': true } as const

export function AccountMenu({ onHelp }: { onHelp(): void }) {
  const { account } = useSession()
  useAccountZone()
  return (
    <Popover
      label="Account"
      className="account-button"
      button={
        <>
          <span className="avatar" aria-hidden="true" data-letter={[...account.name][0]?.toUpperCase()} />
          <bdi className="account-name">{account.name}</bdi>
        </>
      }
      buttonLabel={account.name}
    >
      {(close) => (
        <>
          <Person />
          <Accounts />
          <Preferences />
          <div className="popover-section">
            <AppLink to="/settings/profile" className="menu-item" onClick={close}>
              <IconUser {...ICON} />
              Your sign-in
            </AppLink>
            <a href="/docs" className="menu-item">
              <IconBook {...ICON} />
              API reference
            </a>
            <button
              type="button"
              className="menu-item"
              onClick={() => {
                close()
                onHelp()
              }}
            >
              <IconKeyboard {...ICON} />
              Keyboard shortcuts
              <kbd>?</kbd>
            </button>
          </div>
          <SignOut />
        </>
      )}
    </Popover>
  )
}

function Person() {
  const { user, role } = useSession()
  return (
    <div className="popover-section person">
      {user.name && (
        <b>
          <bdi>{user.name}</bdi>
        </b>
      )}
      <bdi>{user.email}</bdi>
      <span>Role: {toWords(role)}</span>
    </div>
  )
}

function Accounts() {
  const { account, accounts } = useSession()
  const queries = useQueryClient()
  const switchTo = async (id: string) => {
    const session = await api.auth.setSession({ account_id: id })
    queries.clear()
    queries.setQueryData(SESSION, session)
    announceAccount()
    location.assign('/app')
  }
  if (accounts.length < 2) return null
  return (
    <div className="popover-section">
      {accounts.map(({ id, name }) => (
        <button key={id} type="button" className="menu-item" onClick={() => switchTo(id)} disabled={id === account.id}>
          <bdi>{name}</bdi>
          {id === account.id && <IconCheck {...ICON} className="menu-note" />}
        </button>
      ))}
    </div>
  )
}

/** Dates follow the zone of the account while it is chosen, also after it was changed. */
function useAccountZone(isShown = false): string | undefined {
  const isChosen = useZoneChoice() === 'account'
  const zone = useData(read.account.get(), { enabled: isChosen || isShown, staleTime: 60_000 }).data?.timezone
  useEffect(() => {
    if (isChosen && zone !== undefined) setAccountZone(zone)
  }, [isChosen, zone])
  return zone
}

function Preferences() {
  const { colorScheme, setColorScheme } = useMantineColorScheme()
  const choice = useZoneChoice()
  const accountZone = useAccountZone(true)
  return (
    <div className="popover-section preferences">
      <NativeSelect
        label="Colours"
        {...bindText(colorScheme, (value) => setColorScheme(value === 'light' || value === 'dark' ? value : 'auto'))}
        data={SCHEMES}
      />
      <NativeSelect
        label="Time zone"
        {...bindText(choice, setZone)}
        data={[
          { value: '', label: `Browser (${getBrowserZone()})` },
          { value: 'account', label: accountZone ? `Account (${accountZone})` : 'Account' },
          { value: 'UTC', label: 'UTC' },
        ]}
      />
    </div>
  )
}

function SignOut() {
  const signOut = async () => {
    await api.auth.logout()
    location.assign('/login')
  }
  return (
    <div className="popover-section">
      <button type="button" className="menu-item" onClick={signOut}>
        <IconLogout {...ICON} />
        Sign out
      </button>
      <span className="version">Tassis {document.querySelector<HTMLMetaElement>('meta[name=version]')?.content}</span>
    </div>
  )
}
