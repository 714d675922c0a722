/** @module The frame around every screen: navigation, account, theme, keyboard shortcuts. */
import {
  Anchor,
  AppShell,
  Burger,
  Button,
  Divider,
  Group,
  NavLink,
  Popover,
  Radio,
  ScrollArea,
  Stack,
  Text,
  useMantineColorScheme,
  VisuallyHidden,
} from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useRouterState } from '@tanstack/react-router'
import { useEffect } from 'react'
import { api } from '../api/client.ts'
import { useLiveState } from '../api/live.tsx'
import { announceAccount, SESSION, useSession } from '../api/session.tsx'
import { Keyboard } from './keyboard.tsx'
import { listNavigationGroups } from './navigation.ts'
import { PasswordAgainProvider } from './password-again.tsx'
import { RecoveryCodesDialog } from './recovery-codes.tsx'

export function Shell() {
  const [isOpen, menu] = useDisclosure(false)
  const { user } = useSession()
  const path = useRouterState({ select: ({ location }) => location.pathname })
  // biome-ignore lint/correctness/useExhaustiveDependencies: the menu closes at each change of the path
  useEffect(() => menu.close(), [path])
  return (
    <AppShell
      header={{ height: 52 }}
      navbar={{ width: 208, breakpoint: 'sm', collapsed: { mobile: !isOpen } }}
      padding={{ base: 'sm', sm: 'lg' }}
    >
      <Anchor href="#main" className="skip">
        Skip to content
      </Anchor>
      <AppShell.Header>
        <Group h="100%" px="sm" justify="space-between" wrap="nowrap">
          <Group wrap="nowrap" gap="xs">
            <Burger
              opened={isOpen}
              onClick={menu.toggle}
              hiddenFrom="sm"
              size="sm"
              aria-label={isOpen ? 'Close the navigation' : 'Open the navigation'}
            />
            <Anchor component={Link} to="/" underline="never" c="inherit" fw={700} aria-label="Tassis">
              <Group gap={8} wrap="nowrap">
                <img src="/icon.svg" alt="" width={24} height={24} />
                <span className="brand-name">Tassis</span>
              </Group>
            </Anchor>
          </Group>
          <Group wrap="nowrap" gap="xs" miw={0}>
            <LiveIndicator />
            <AccountMenu />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label="Screens">
        <AppShell.Section grow component={ScrollArea}>
          {listNavigationGroups(user.is_operator).map(({ label: group, items }) => (
            <div key={group ?? ''}>
              {group !== undefined && (
                <Text size="xs" c="dimmed" fw={600} px="xs" pt="xs">
                  {group}
                </Text>
              )}
              {items.map(({ label, to }) => {
                const isHere = to === '/' ? path === '/' : path === to || path.startsWith(`${to}/`)
                return (
                  <NavLink
                    key={to}
                    component={Link}
                    to={to}
                    label={label}
                    py={4}
                    active={isHere}
                    {...(isHere && { 'aria-current': 'page' })}
                  />
                )
              })}
            </div>
          ))}
        </AppShell.Section>
        <AppShell.Section>
          <NavLink component="a" href="/docs" label="API description" />
        </AppShell.Section>
      </AppShell.Navbar>
      <AppShell.Main id="main" tabIndex={-1}>
        <PasswordAgainProvider>
          <Outlet />
        </PasswordAgainProvider>
      </AppShell.Main>
      <Keyboard />
      <RecoveryCodesDialog />
    </AppShell>
  )
}

function LiveIndicator() {
  const state = useLiveState()
  return (
    <Text size="sm" c="dimmed" role="status" miw={0} truncate>
      {state === 'live' ? (
        <VisuallyHidden>Live</VisuallyHidden>
      ) : state === 'polling' ? (
        <span title="Refreshed every 15 seconds" style={{ whiteSpace: 'nowrap' }}>
          Not live
        </span>
      ) : null}
    </Text>
  )
}

const SCHEMES = [
  { value: 'auto', label: 'As the system' },
  { value: 'light', label: 'Light' },
  { value: 'dark', label: 'Dark' },
] as const

function AccountMenu() {
  const { user, account, accounts } = useSession()
  const { colorScheme, setColorScheme } = useMantineColorScheme()
  const queries = useQueryClient()
  const switchTo = async (id: string) => {
    const session = await api.auth.setSession({ account_id: id })
    queries.clear()
    queries.setQueryData(SESSION, session)
    announceAccount()
    location.assign('/app')
  }
  const signOut = async () => {
    await api.auth.logout()
    location.assign('/login')
  }
  return (
    <Popover position="bottom-end" width={260} withRoles trapFocus returnFocus>
      <Popover.Target>
        <Button variant="default" size="xs" maw={220} style={{ flexShrink: 1, minWidth: '3rem' }}>
          <Text truncate size="sm">
            {account.name}
          </Text>
        </Button>
      </Popover.Target>
      <Popover.Dropdown aria-label="Account" p="xs">
        <Stack gap={2}>
          <Text size="sm" px="xs" dir="auto">
            {user.email}
          </Text>
          {accounts.length > 1 &&
            accounts.map(({ id, name }) => (
              <NavLink
                key={id}
                component="button"
                label={name}
                onClick={() => switchTo(id)}
                disabled={id === account.id}
              />
            ))}
          <Divider my={4} />
          <Radio.Group
            label="Colours"
            value={colorScheme}
            onChange={(value) => setColorScheme(value as typeof colorScheme)}
          >
            <Stack gap={4} p="xs">
              {SCHEMES.map(({ value, label }) => (
                <Radio key={value} value={value} label={label} />
              ))}
            </Stack>
          </Radio.Group>
          <Divider my={4} />
          <NavLink component="button" label="Sign out" onClick={signOut} />
        </Stack>
      </Popover.Dropdown>
    </Popover>
  )
}
