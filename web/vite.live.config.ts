import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';
import { livePage } from './live.ts';

export default defineConfig({
  plugins: [svelte(), livePage()],
  build: {
    outDir: process.env.QKV_PAGE_FOLDER ?? '../qkv/serving/page',
    emptyOutDir: false,
    cssCodeSplit: false,
    modulePreload: false,
    target: 'es2022',
    rolldownOptions: {
      input: 'src/live/main.ts',
      output: { entryFileNames: 'live.js', assetFileNames: 'live[extname]' },
    },
  },
});
