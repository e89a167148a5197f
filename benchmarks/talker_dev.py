import hashlib, json, sys, time, torch
from pathlib import Path
sys.path.insert(0, str(Path(__file__).parent.parent))
from music3_cli.checkpoint.layout import *
from music3_cli.models.talker import Talker
from music3_cli.kernels import linear as L, norm as N, heads as Hd, attention as A, depth_attention as D, draw as Dr
from music3_cli.kernels.rotary import rotary_tables
from music3_cli.talker import state as St, step as Sp, graphs as Gr, draws as Dw, engine as En
from music3_cli.randomness import ServerRandomness, gumbel
from music3_cli.talker.sampling import *
dev = "cuda"; torch.manual_seed(0)
rel = json.load(open(Path(__file__).parent.parent / "music3_cli/checkpoint/released.json"))["components"]
B = BackboneConfig.from_json(rel["language_model"]["config"], ""); DC = DepthConfig.from_json(rel["rvq_depth_decoder"]["config"], "")
def bench(fn, n=20, warm=3):
    for _ in range(warm): fn()
    torch.cuda.synchronize(); s = torch.cuda.Event(True); e = torch.cuda.Event(True); s.record()
    for _ in range(n): fn()
    e.record(); torch.cuda.synchronize(); return s.elapsed_time(e) / n
def twin(f, *a):
    saved = {m: m.use_kernel for m in (L, N, Hd, A, D)}
    for m in saved: m.use_kernel = lambda x: False
    try: return f(*a)
    finally:
        for m, v in saved.items(): m.use_kernel = v
def cmp(n, a, b): print(f"  {n}: max {(a.float()-b.float()).abs().max().item():.3g} of {b.float().abs().max().item():.3g} rel {((a.float()-b.float()).norm()/b.float().norm()).item():.2e}")
with torch.inference_mode():
    for dt in (torch.float32, torch.bfloat16):
        print(dt)
        for n, k in ((6144, 4096), (4096, 4096), (4096, 12288), (16385, 4096), (1024, 4096), (12288, 4096)):
            x = torch.randn(2, k, device=dev).to(dt); w = (torch.randn(n, k, device=dev) * .02).to(dt)
            o = L.sum_parts(L.linear_parts(x, w), torch.float32); ref = x.double() @ w.double().T
            print(f"  lin {n}x{k} rel {((o.double()-ref).norm()/ref.norm()).item():.2e}")
        w2 = (torch.randn(24576, 4096, device=dev) * .02).to(dt); x = torch.randn(2, 4096, device=dev).to(dt); cmp("gated", L.gated_linear(x, w2), twin(L.gated_linear, x, w2))
        parts = torch.randn(4, 2, 4096, device=dev); res = torch.randn(2, 4096, device=dev).to(dt); wt = torch.rand(4096, device=dev).to(dt)
        for u, v in zip(N.add_norm(parts, res, wt, 1e-6), twin(N.add_norm, parts, res, wt, 1e-6)): cmp("addnorm", u, v)
        G, H, dm, P = 8, 32, 128, 3000
        kc = torch.zeros(4, G, P, dm, dtype=dt, device=dev); vc = kc.clone(); kc2, vc2 = kc.clone(), vc.clone()
        qkvp = torch.randn(2, 4, (H + 2 * G) * dm, device=dev); pos = torch.tensor([5, 5, 2600, 2600], device=dev)
        cos, sin = rotary_tables(torch.arange(P, device=dev), dm, 1e6); t = (cos.to(dt), sin.to(dt)); nn_ = (torch.rand(dm, device=dev).to(dt), torch.rand(dm, device=dev).to(dt))
        q = Hd.heads_into_cache(qkvp, nn_, t, pos, (kc, vc), 1e-6); q2 = twin(Hd.heads_into_cache, qkvp, nn_, t, pos, (kc2, vc2), 1e-6)
        cmp("q", q, q2); cmp("k", kc, kc2); cmp("v", vc, vc2)
        kc = torch.randn(4, G, P, dm, device=dev).to(dt); vc = torch.randn(4, G, P, dm, device=dev).to(dt)
        cmp("attend", A.attend(q, kc, vc, pos), twin(A.attend, q, kc, vc, pos))
        c = torch.zeros(2, 4, 16, 8, 256, dtype=dt, device=dev); c2 = c.clone()
        p0 = torch.randn(2, 8, 3 * 4096, device=dev); cmp("d0", D.depth_attend(p0, c, 0, 2), twin(D.depth_attend, p0, c2, 0, 2))
        p1 = torch.randn(2, 4, 3 * 4096, device=dev); cmp("d1", D.depth_attend(p1, c, 2, 1), twin(D.depth_attend, p1, c2, 2, 1)); cmp("cache", c, c2)
        ok = 0
        for trial in range(40):
            V = 16385 if trial % 2 else 1024
            lg = torch.randn(4 if trial % 2 == 0 else 1, 6, V, device=dev) * 2.5; seed = torch.randint(0, 2**31, (3,), device=dev); ps = torch.randint(0, 72000, (3,), device=dev)
            for mask, fn in ((True, semantic_candidates), (False, residual_candidates)):
                a = Dr.draw_columns(lg, dt, seed, ps, 1.5, 50, mask); b = (fn(L.sum_parts(lg, dt)).double() + gumbel(seed, ps, V)).argmax(-1)
                ok += int(torch.equal(a, b))
        print("  draws equal", ok, "of 80")
        for R in (4, 8, 16, 32, 64):
            x = torch.randn(R, 4096, device=dev).to(dt); w = (torch.randn(6144, 4096, device=dev) * .02).to(dt)
            a = L.linear_parts(x, w)[:, :2]; b = L.linear_parts(x[:2].contiguous(), w); c_ = L.linear_parts(torch.cat((x[2:], x[:2])), w)[:, -2:]
            g = L.gated_linear(x, w2)[:2]; g2 = L.gated_linear(x[:2].contiguous(), w2)
            print(f"  rows {R}: same bits {torch.equal(a, b)} {torch.equal(a, c_)} {torch.equal(g, g2)}")
    dt = torch.bfloat16
    with torch.device("meta"): talker = Talker(B, DC)
    talker = talker.to(dt).to_empty(device=dev)
    gen = torch.Generator(dev).manual_seed(0)
    for n, p in talker.named_parameters(): p.normal_(0, .02, generator=gen) if p.ndim > 1 else p.fill_(1)
    talker.head[0].zero_(); talker.text_embeddings = torch.randn(1000, 4096).to(dt)
    x = torch.empty(2**31, dtype=dt, device=dev).normal_(); ms = bench(lambda: x.sum(), 10); print(f"read {x.numel()*2/ms/1e9:.2f} TB/s"); del x
    import itertools
    draws = Dw.ServerDraws(torch.bfloat16)
    def timing(fn, ws, R, k):
        xx = torch.randn(R, k, device=dev, dtype=dt); g = torch.cuda.CUDAGraph(); fn(xx, ws[0]); torch.cuda.synchronize()
        with torch.cuda.graph(g):
            for _ in range(2):
                for w in ws: fn(xx, w)
        return bench(g.replay, 6, 2) / (len(ws) * 2)
    best = {}
    t_end = time.time() + float(sys.argv[1])
    base = L.tiling
    def sweep(name, n, k, fn, cuts, setter):
        ws = [(torch.randn(n, k, device=dev, dtype=dt) * .02) for _ in range(max(2, int(300e6 / (n * k * 2))))]
        rows = []
        for cut in cuts:
            if time.time() > t_end: break
            setter(cut)
            try:
                a = timing(fn, ws, 2, k); rows.append((a, cut))
            except Exception as ex: print("   fail", cut, str(ex)[:80])
        rows.sort(key=lambda r: r[0])
        for a, cut in rows[:4]:
            setter(cut)
            try: b = timing(fn, ws, 32, k)
            except Exception: b = 1e9
            print(f"  {name} {n}x{k}: {a*1e3:.1f} us {n*k*2/a/1e9:.2f} TB/s, R32 {n*k*2/b/1e9:.2f}  {cut.columns} {cut.depth} {cut.parts} w{cut.warps} s{cut.stages}", flush=True)
        del ws
    def set_l(cut): L.tiling = lambda o, i, s_: cut
    def set_g(cut): L.gated_tiling = lambda s_: cut
    gb = L.gated_tiling
    sweep("gated", 24576, 4096, L.gated_linear, [L.Tiling(c, d, 1, w, s_) for c, d, w, s_ in itertools.product((16, 32, 64), (64, 128, 256), (4, 8), (3, 4, 6)) if c * d * 2 * 2 * s_ < 200e3 and (c, w) != (16, 8)], set_g)
    for n, k in ((4096, 12288), (6144, 4096), (4096, 4096), (12288, 4096)):
        sweep("linear", n, k, L.linear_parts, [L.Tiling(c, d, p_, w, s_) for c, d, p_, w, s_ in itertools.product((32, 64, 128), (128, 256), (1, 2, 4, 8), (4, 8), (3, 5)) if c * d * 2 * s_ < 200e3 and 128 <= (n // c) * p_ <= 800 and (c, w) not in ((32, 8),) and k // p_ % d == 0 and k // p_ >= 512], set_l)
    L.tiling, L.gated_tiling = base, gb
    if len(sys.argv) > 2:
        for ahead in (0, 4, 8, 16, 32):
            import dataclasses
            L.tiling = lambda o, i, s_: dataclasses.replace(base(o, i, s_), ahead=ahead)
            L.gated_tiling = lambda s_: dataclasses.replace(gb(s_), ahead=ahead)
            draws = Dw.ServerDraws(dt); S = St.Slots.empty(talker, 1, 2064, 600); gr = Gr.StepGraphs(lambda s: Sp.frame_step(talker, s, draws), S)
            S.admit(0, torch.randn(2, 4096, device=dev, dtype=dt), 1960, 500, 7); print("ahead", ahead, f"{bench(lambda: gr.replay(1), 40, 5):.3f} ms", flush=True); del gr, S
        L.tiling, L.gated_tiling = base, gb
        for wts in ((2, 16), (4, 32), (8, 16)):
            Dr.WARPS = wts
            for V, msk, P_ in ((16385, True, 1), (1024, False, 8)):
                lg = torch.randn(P_, 2, V, device=dev); sd = torch.tensor([5], device=dev); ps = torch.tensor([9], device=dev)
                g = torch.cuda.CUDAGraph(); f = lambda: Dr.draw_columns(lg, dt, sd, ps, 1.5, 50, msk); f(); torch.cuda.synchronize()
                with torch.cuda.graph(g):
                    for _ in range(20): f()
                print("draw", V, wts, f"{bench(g.replay, 10)/20*1e3:.1f} us")
        Dr.WARPS = (4, 32)
        for sp in (128, 256):
            A.SPLIT = sp
            for R, ctx in ((2, 2000), (32, 4000)):
                q = torch.randn(R, 32, 128, device=dev, dtype=dt); kcs = [torch.randn(R, 8, ctx, 128, device=dev, dtype=dt) for _ in range(4)]; ps = torch.full((R,), ctx - 1, device=dev)
                g = torch.cuda.CUDAGraph(); A.attend(q, kcs[0], kcs[1], ps); torch.cuda.synchronize()
                with torch.cuda.graph(g):
                    for i in range(8): A.attend(q, kcs[i % 4], kcs[(i + 1) % 4], ps)
                print("attend split", sp, R, ctx, f"{bench(g.replay, 10)/8*1e3:.1f} us")
        import music3_cli.kernels.triton_support as TS
        off = lambda x: {"EARLY": False}
        on = L.overlap
        for mods, label in (((), "none"), ((L,), "linear only"), ((N, Hd, A, D, Dr), "all but linear")):
            for m in (L, N, Hd, A, D, Dr): m.overlap = on if m in mods else off
            S = St.Slots.empty(talker, 1, 2064, 600); gr = Gr.StepGraphs(lambda s: Sp.frame_step(talker, s, draws), S)
            S.admit(0, torch.randn(2, 4096, device=dev, dtype=dt), 1960, 500, 7); print("overlap", label, f"{bench(lambda: gr.replay(1), 40, 5):.3f} ms", flush=True); del gr, S
        for m in (L, N, Hd, A, D, Dr): m.overlap = on
    draws = Dw.ServerDraws(dt)
    def timed(slots, ctx):
        S = St.Slots.empty(talker, slots, ctx + 64, 600)
        t0 = time.perf_counter(); gr = Gr.StepGraphs(lambda s: Sp.frame_step(talker, s, draws), S); torch.cuda.synchronize(); cap = time.perf_counter() - t0
        S.cache.k_LRGPD.normal_(); S.cache.v_LRGPD.normal_()
        for s in range(slots): S.admit(s, torch.randn(2, 4096, device=dev, dtype=dt), ctx, 500, 7 + s)
        S.position_S.fill_(ctx - 40)
        ms = bench(lambda: gr.replay(slots), 40, 5)
        print(f"songs {slots} ctx {ctx}: {ms:.2f} ms a frame, capture {cap:.1f} s", flush=True)
        return gr, S
    for slots, ctx in ((1, 500), (1, 2000), (1, 8000), (4, 2000), (16, 2000), (16, 4000)):
        gr, S = timed(slots, ctx)
        if (slots, ctx) in ((1, 2000), (16, 4000)):
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as prof:
                gr.replay(slots); torch.cuda.synchronize()
            print(prof.key_averages().table(sort_by="cuda_time_total", row_limit=22, max_name_column_width=50)[:6000])
        del gr, S; torch.cuda.empty_cache()
    ids = list(range(3, 400)); eng = En.TalkerEngine(talker)
    def song(seed, frames, n=400): return En.TalkerSong(str(seed), ids[:n], ids[:n], frames, ServerRandomness(seed))
    def sha(s): return hashlib.sha256(s.frame_hiddens().float().cpu().numpy().tobytes() + str(s.codes).encode()).hexdigest()[:16]
    def run(songs, slots=16, graph=True):
        for _ in En.TalkerEngine(talker, graph).run(songs, slots): pass
    a = song(42, 120); run([a]); print("alone      ", sha(a), a.seconds)
    e = song(42, 120); run([e], graph=False); print("eager      ", sha(e), e.seconds)
    for others, label in ((5, "6 songs"), (15, "16 songs"), (20, "21 songs, admitted late")):
        a = song(42, 120); rest = [song(100 + i, 125 + i * 3 if i % 2 else 60 + i, 50 + 9 * i) for i in range(others)]
        run(rest[:3] + [a] + rest[3:]); print(label, sha(a), a.seconds, [r.frames for r in rest] == [r.max_frames for r in rest])
