import { Page } from '../parts/page.tsx'

export const SettingsScreen = () => <Page title="Settings">Not built</Page>
